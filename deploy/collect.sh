#!/bin/sh
# Collect what a machine without internet needs: wheels with hashes, an installer and, with --image, the container's image.
#   deploy/collect.sh FOLDER [--image]
# Run it in a checkout, on a machine with a network and the same system and Python (3.11 on Linux x86-64, see PYTHON).
# Carry FOLDER over, then run FOLDER/install.sh there.
set -eu
[ "$#" -ge 1 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
mkdir -p "$1/wheels"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}

"$python" -m pip download --require-hashes --only-binary :all: --dest "$folder/wheels" -r requirements/container.txt
"$python" -m pip wheel --no-deps --wheel-dir "$folder/wheels" .
wheel=$(cd "$folder/wheels" && ls clocs-*.whl)
version=$(echo "$wheel" | cut -d - -f 2)
{
    cat requirements/container.txt
    echo "clocs==$version --hash=sha256:$(sha256sum "$folder/wheels/$wheel" | cut -d ' ' -f 1)"
} > "$folder/requirements.txt"
cp deploy/install.sh "$folder/install.sh"

if [ "${2:-}" = --image ]; then
    engine=$(command -v podman || command -v docker) || { echo "error: neither podman nor docker is installed" >&2; exit 1; }
    "$engine" build -f deploy/Dockerfile -t "clocs:$version" .
    "$engine" save -o "$folder/clocs-$version-image.tar" "clocs:$version"
fi
cd "$folder"
rm -f SHA256SUMS
find . -type f | sort | xargs sha256sum > ../SHA256SUMS.$$
mv ../SHA256SUMS.$$ SHA256SUMS
echo "$(ls wheels | wc -l) wheels in $folder. Compare this hash on the other machine:"
sha256sum SHA256SUMS
