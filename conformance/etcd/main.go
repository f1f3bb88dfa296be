// etcd, in a module of its own: its requirements and kube-apiserver's do not agree.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
