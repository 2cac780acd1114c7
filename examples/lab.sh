# Sourced after begin.sh by the examples that need several machines: a lab of their own (scripts/lab) that goes when
# the script ends.
# LAB_NUMBER: which one, where several run side by side.
lab=${LAB_NUMBER:-$$}
number=$(printf '%05x' $((lab & 0xfffff)))
export LAB_NAME=x$number MINIK8S LAB_NET=172.$((18 + (lab >> 8) % 12)).$((lab & 0xff))
export LAB_DIR=${LAB_PARENT:-/tmp}/lab-$number

lab() { "$root/scripts/lab" "$@"; }

# lab_up N: nodes 1 to N, ready; $KUBECONFIG is that cluster's.
lab_up() {
  trap 'lab down' EXIT
  lab up "$1"
  export KUBECONFIG=$LAB_DIR/admin.kubeconfig
  "$root/scripts/lab-ready" "$1" >/dev/null
  eventually "the namespace is ready" kubectl get serviceaccount default
}
