package oracle

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const namespace = "ns"

var (
	// podResourceNames are what containers may ask for: counted, passed over, and nearly one or the other.
	podResourceNames = []corev1.ResourceName{
		"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "example.com/gpu", "deviceclass.resource.kubernetes.io/small",
		"storage", "kubernetes.io/batch-cpu", "node.kubernetes.io/x", "requests.cpu", "requests.example.com/gpu", "pods", "count/pods",
		"hugepages-", "hugepages", "attachable-volumes-x", "hugepages-a/b", "vendor.org/fpga", "deviceclass.resource.kubernetes.io/gone",
	}
	priorityClasses = []string{"", "", "hi", "lo", "system-node-critical"}
)

// resources is a list for a container, a pod, an overhead or a status.
func (r *Random) resources(percent int) corev1.ResourceList {
	if !r.chance(percent) {
		return nil
	}
	list := corev1.ResourceList{}
	for _, name := range some(r, 3, podResourceNames[:6]...) {
		list[name] = parsed(r.quantity())
	}
	if r.chance(40) {
		list[pick(r, corev1.ResourceCPU, corev1.ResourceMemory)] = parsed(r.quantity())
	}
	if r.chance(5) {
		list[pick(r, podResourceNames...)] = parsed(r.quantity())
	}
	return list
}

func (r *Random) requirements() corev1.ResourceRequirements {
	made := corev1.ResourceRequirements{Requests: r.resources(75), Limits: r.resources(50)}
	if r.chance(15) {
		made.Limits = made.Requests
	}
	return made
}

func (r *Random) container(name string) corev1.Container {
	return corev1.Container{Name: name, Resources: r.requirements()}
}

// containerStatus says what a container has been given, which may be more, less or something else than it asks for.
func (r *Random) containerStatus(container corev1.Container) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: container.Name}
	near := func(list corev1.ResourceList) corev1.ResourceList {
		changed := list.DeepCopy()
		for _, name := range namesIn(changed) {
			if r.chance(40) {
				changed[name] = parsed(r.quantity())
			}
			if r.chance(10) {
				delete(changed, name)
			}
		}
		return changed
	}
	if r.chance(60) {
		status.AllocatedResources = near(container.Resources.Requests)
	}
	if r.chance(60) {
		status.Resources = &corev1.ResourceRequirements{Requests: near(container.Resources.Requests), Limits: near(container.Resources.Limits)}
	}
	if r.chance(10) {
		status.AllocatedResources = r.resources(80)
	}
	if r.chance(10) {
		status.Resources = &corev1.ResourceRequirements{Requests: r.resources(60), Limits: r.resources(60)}
	}
	return status
}

func (r *Random) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: r.metadata(name), Spec: corev1.PodSpec{
		PriorityClassName: pick(r, priorityClasses...),
	}}
	bestEffort := r.chance(15)
	add := func(list *[]corev1.Container, prefix string, most int) {
		for i := range r.IntN(most + 1) {
			container := r.container(fmt.Sprint(prefix, i))
			if bestEffort {
				container.Resources = corev1.ResourceRequirements{}
				if r.chance(20) {
					container.Resources.Requests = corev1.ResourceList{pick(r, podResourceNames...): parsed("0")}
				}
			}
			if r.chance(3) {
				container.Name = "c0"
			}
			*list = append(*list, container)
		}
	}
	add(&pod.Spec.Containers, "c", 3)
	if r.chance(45) {
		add(&pod.Spec.InitContainers, "i", 4)
		for i := range pod.Spec.InitContainers {
			switch {
			case r.chance(45):
				always := corev1.ContainerRestartPolicyAlways
				pod.Spec.InitContainers[i].RestartPolicy = &always
			case r.chance(10):
				never := pick(r, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure, "")
				pod.Spec.InitContainers[i].RestartPolicy = &never
			}
		}
	}
	if r.chance(20) {
		pod.Spec.Overhead = r.resources(100)
	}
	if r.chance(20) {
		requirements := corev1.ResourceRequirements{Requests: r.resources(80), Limits: r.resources(50)}
		if r.chance(5) {
			requirements = corev1.ResourceRequirements{Requests: corev1.ResourceList{"storage": parsed("1")}}
		}
		pod.Spec.Resources = &requirements
	}
	if r.chance(20) {
		seconds := pick[int64](r, 0, 1, -1, 3600, math.MaxInt64, math.MinInt64)
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}
	if r.chance(20) {
		pod.Spec.Affinity = r.affinity()
	}
	r.podStatus(pod)
	return pod
}

func (r *Random) podStatus(pod *corev1.Pod) {
	status := &pod.Status
	status.Phase = pick(r, "", corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodUnknown,
		corev1.PodSucceeded, corev1.PodFailed)
	if r.chance(10) {
		status.QOSClass = pick(r, corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed)
	}
	if r.chance(50) {
		return
	}
	statuses := func(containers []corev1.Container) (made []corev1.ContainerStatus) {
		for _, container := range containers {
			if r.chance(85) {
				made = append(made, r.containerStatus(container))
			}
		}
		if r.chance(4) {
			made = append(made, r.containerStatus(corev1.Container{Name: pick(r, "c0", "i0", "gone"), Resources: r.requirements()}))
		}
		return made
	}
	status.ContainerStatuses, status.InitContainerStatuses = statuses(pod.Spec.Containers), statuses(pod.Spec.InitContainers)
	for range r.IntN(3) {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type:   pick(r, corev1.PodResizePending, corev1.PodResizePending, corev1.PodResizeInProgress, corev1.PodReady),
			Status: pick(r, corev1.ConditionTrue, corev1.ConditionFalse),
			Reason: pick(r, "", corev1.PodReasonInfeasible, corev1.PodReasonInfeasible, corev1.PodReasonDeferred, "Other"),
		})
	}
	if r.chance(20) {
		status.Resources = &corev1.ResourceRequirements{Requests: r.resources(80), Limits: r.resources(60)}
	}
	if r.chance(20) {
		status.AllocatedResources = r.resources(100)
	}
	status.Resize = pick(r, "", "", "", corev1.PodResizeStatusInfeasible, corev1.PodResizeStatusInProgress) //nolint:staticcheck // read by nobody, which must stay so
}

func (r *Random) affinity() *corev1.Affinity {
	term := func() corev1.PodAffinityTerm {
		made := corev1.PodAffinityTerm{TopologyKey: "zone"}
		if r.chance(20) {
			made.Namespaces = pick(r, []string{"other"}, []string{""}, []string{})
		}
		if r.chance(15) {
			made.NamespaceSelector = &metav1.LabelSelector{}
		}
		return made
	}
	terms := func() (required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for range r.IntN(3) {
			required = append(required, term())
		}
		for range r.IntN(3) {
			preferred = append(preferred, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term()})
		}
		return required, preferred
	}
	affinity := &corev1.Affinity{}
	if r.chance(60) {
		affinity.PodAffinity = &corev1.PodAffinity{}
		affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms()
	}
	if r.chance(60) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms()
	}
	return affinity
}

// metadata of an object that may be on its way out.
func (r *Random) metadata(name string) metav1.ObjectMeta {
	made := metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", r.Uint64()&0xffffffffffff)),
		ResourceVersion: fmt.Sprint(1 + r.IntN(1000)), CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(r.IntN(3)) * time.Hour))}
	if !r.chance(20) {
		return made
	}
	if r.chance(90) {
		// At the end of its grace a pod still counts; a second later it does not.
		at := metav1.NewTime(now.Add(time.Duration(pick(r, 0, -30, -31, -29, -1, 1, 3600, -3600)) * time.Second))
		made.DeletionTimestamp = &at
	}
	if r.chance(90) {
		grace := pick[int64](r, 30, 30, 30, 0, 1, -1, 3600)
		if r.rarely(100) {
			grace = pick[int64](r, math.MaxInt64, math.MaxInt64/1_000_000_000+1)
		}
		made.DeletionGracePeriodSeconds = &grace
	}
	return made
}

// endless says that a grace overflows upstream.
func endless(object metav1.ObjectMeta) bool {
	return object.DeletionGracePeriodSeconds != nil && *object.DeletionGracePeriodSeconds > math.MaxInt64/int64(time.Second)
}

func quantityOf(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
