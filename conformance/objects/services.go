package objects

import "fmt"

func (g *generator) services() {
	ports := func(n int) L {
		made := L{}
		for i := range n {
			made = append(made, M{"name": fmt.Sprintf("p%d", i), "port": 80 + i})
		}
		return made
	}
	// Explicit ports must differ over the whole cluster; a namespace's last letter keeps them apart.
	// The lowest ports of the range are the last that the server gives out by itself.
	explicit := 30000 + 10*int(g.namespace[len(g.namespace)-1]-'a')

	services := map[string]M{
		"cluster-ip":     {"ports": ports(1 + g.random.IntN(3))},
		"headless":       {"clusterIP": "None", "ports": ports(1)},
		"external-name":  {"type": "ExternalName", "externalName": "db.example.com"},
		"external-ports": {"type": "ExternalName", "externalName": "db.example.com", "ports": ports(2)},
		"node-port":      {"type": "NodePort", "ports": ports(1)},
		"node-ports":     {"type": "NodePort", "ports": ports(2 + g.random.IntN(3))},
		"balancer":       {"type": "LoadBalancer", "ports": ports(2)},
		"balancer-true":  {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": true, "ports": ports(1 + g.random.IntN(2))},
		"balancer-false": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports(2)},
		"balancer-mixed": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": L{
			M{"name": "a", "port": 80, "nodePort": explicit}, M{"name": "b", "port": 81},
			M{"name": "c", "port": 82, "nodePort": explicit + 1}}},
	}
	for _, name := range sorted(services) {
		g.add("v1", "services", "Service", name, M{"spec": services[name]})
	}
}
