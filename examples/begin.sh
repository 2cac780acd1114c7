# Sourced by every example's `run`: a namespace of its own that goes when the script ends, and a few words to write
# the scripts with. KUBECONFIG and DATA_DIR are those of `make up` unless set; MINIK8S names the binary, IMAGES the
# folder of the images.
set -euo pipefail

example=$(basename "$(dirname "$(readlink -f "$0")")")
here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
export DATA_DIR=${DATA_DIR:-/var/lib/minik8s}
export KUBECONFIG=${KUBECONFIG:-$DATA_DIR/admin.kubeconfig}
MINIK8S=${MINIK8S:-$root/target/release/minik8s}
images=${IMAGES:-$root/images/out}
namespace=example-$example

say() { printf '\n%s: %s\n' "$example" "$*"; }
fail() { printf '%s: FAILED: %s\n' "$example" "$*" >&2; exit 1; }
k() { kubectl -n "$namespace" "$@"; }

# eventually WHAT COMMAND...: the command succeeds within three minutes, also on a busy machine.
eventually() {
  local what=$1 deadline=$((SECONDS + 180))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || fail "$what, within three minutes"
    sleep 0.2
  done
  echo "  $what"
}

# same WHAT EXPECTED ACTUAL
same() {
  [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
  echo "  $1: $3"
}

# image NAME...: loads images of `make images` into the node unless they are there.
image() {
  local name
  for name in "$@"; do
    "$MINIK8S" image list --data-dir "$DATA_DIR" | grep -q "minik8s.io/$name:1" && continue
    [ -e "$images/$name.tar" ] || "$root/images/build" "$images" >/dev/null
    "$MINIK8S" image load --data-dir "$DATA_DIR" "$images/$name.tar"
  done
}

begin() {
  kubectl create namespace "$namespace" >/dev/null
  trap 'kubectl delete namespace "$namespace" --wait=true >/dev/null' EXIT
  # Pods need the namespace's default account.
  eventually "the namespace is ready" k get serviceaccount default
}
