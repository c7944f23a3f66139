# Every target first sets the machine up if needed; if nothing has changed, this takes a fraction of a second.

PYTHON ?= python3

# The user's variables, as options of `fencepost test`.
COMMON = $(if $(SEED),--seed $(SEED)) $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(DURATION),--duration $(DURATION)) \
         $(if $(CLUSTER),--cluster $(CLUSTER)) $(ARGS)
OPTIONS = $(if $(LOCK),--lock $(LOCK)) $(COMMON)
TEST = .venv/bin/fencepost test

# That one is broken only where a client's clock is set in the middle of an acquire, which an experiment does.
SCRIPTED_CONTROL = control-wall-clock
CONTROLS = $(filter-out $(SCRIPTED_CONTROL),$(subst _,-,$(patsubst workloads/locks/%.py,%,$(wildcard workloads/locks/control_*.py))))

# What make installs is in the clone, so that is where what it runs looks for it.
unexport FENCEPOST_TOOLS
# Settings of another Python: with them no interpreter of an environment starts.
unexport PYTHONHOME

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help base dev lock-under-test setup setup-docker doctor test test-partition test-latency test-pause test-crash \
        test-power test-controls test-standard test-all report-fsync mutants claims survey published systems nightly many-clients foreign \
        foreign-names fuzz fuzz-judge flips same-verdicts no-blame no-blame-under-faults no-blame-standard signals surroundings engines \
        tampered house screenshots diagrams recording docs lint lock clean

help: ## show this page
	@echo "fencepost finds out by experiment whether a distributed lock on Redis keeps its promise."
	@echo
	@echo "  make test-partition                     the main job: 30 s of load under partitions, and a verdict"
	@echo "  make test-pause LOCK=redlock SEED=7     another fault, another lock, a repeatable schedule"
	@echo
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1@\2/p' Makefile | awk -F@ '{ printf "%-23s %s\n", $$1, $$2 }'
	@echo
	@echo "Variables of the test-… targets:"
	@echo "  SEED=7            same seed, same schedule of faults (default: random, printed)"
	@echo "  LOCK=redlock      the lock under test (default: redlock-ng), or package.module:Class; installed if needed"
	@echo "  CLIENTS=10        client processes"
	@echo "  DURATION=30s      load under faults"
	@echo "  CLUSTER=process   process, docker or auto: containers if a Docker engine answers"
	@echo "  ARGS='--ttl 2s'   any other option of 'fencepost test'; see .venv/bin/fencepost test --help"
	@echo "Variable of test:"
	@echo "  QUICK=1           what takes less than half a second, and one real run; ARGS=… as for pytest"
	@echo "Variables of report-fsync, mutants, claims, survey, systems and nightly:"
	@echo "  QUICK=1           a small version; SEEDS=10: runs per cell; REPORT=folder; CLUSTER as above"
	@echo "  WORKERS=2         runs at the same time, or auto"
	@echo "Variable of set-up:"
	@echo "  PYTHON=python3.12 the Python that creates the environments; remove .venv to change it later"
	@echo
	@echo "Exit codes: 0 valid, 1 violation, 2 unknown, 254 bad arguments, 255 the harness failed (make then exits with 2)."

setup: base ## install what the main job needs: Python packages, redis-server, Toxiproxy, redlock-ng
	@.venv/bin/fencepost setup --quiet --lock redlock-ng

base:
	@command -v $(PYTHON) >/dev/null || { echo "setup: no $(PYTHON) on PATH; install Python 3.11 or newer, or name" \
		"another: make setup PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -E tools/setup.py

dev: base ## what tests and lint need besides: pytest, mypy, ruff
	@$(PYTHON) -E tools/setup.py --dev

# What LOCK names, or what the target tests without it: installed when it is first asked for.
lock-under-test: base
	@.venv/bin/fencepost setup --quiet $(foreach lock,$(or $(LOCK),redlock-ng),--lock $(lock))

setup-docker: ## install and start a Docker engine (Debian, as root); without one, use CLUSTER=process
	@command -v $(PYTHON) >/dev/null || { echo "setup-docker: no $(PYTHON) on PATH" >&2; exit 1; }
	@$(PYTHON) tools/engine.py

doctor: ## what this machine can do, and how to fix what is missing
	@test -x .venv/bin/fencepost || $(MAKE) --no-print-directory setup
	@.venv/bin/fencepost doctor

# The tests of one file share what they start. How many are played at once: tests/conftest.py. What is quick: tests/durations.py.
test: setup dev ## fencepost's own tests: about twenty minutes; QUICK=1: three minutes, before each commit
	.venv/bin/pytest -n auto --dist loadfile --no-loadscope-reorder --note-skipped=build/skipped.jsonl \
		$(if $(QUICK),--quick) $(ARGS)

test-partition: lock-under-test ## the main job: network cuts of every shape, kind and direction
	$(TEST) --nemesis partition $(OPTIONS)

test-latency: lock-under-test ## slow links, with delays up to and beyond the lease
	$(TEST) --nemesis latency $(OPTIONS)

# Holds close to the TTL, and pauses about as long: the stopped client resumes while the next one is inside.
PAUSES = --nemesis pause:targets=inside,interval=1500ms,duration=1ttl --ttl 500ms --hold uniform:250ms-450ms
PAUSED_LOCKS = $(or $(LOCK),redlock redlock-ng)

test-pause: lock-under-test ## clients stopped inside their section, at three levels of fencing, and a table of the losses
	@set -e; for lock in $(PAUSED_LOCKS); do for fencing in none writes all; do \
		$(TEST) $(PAUSES) --lock $$lock --fencing $$fencing $(if $(DURATION),,--duration 20s) $(COMMON); done; done
	@.venv/bin/fencepost list --last $(words $(foreach lock,$(PAUSED_LOCKS),1 2 3))

test-crash: lock-under-test ## servers that are killed and stay down longer than the TTL, and clients that are killed
	$(TEST) --nemesis crash $(OPTIONS)

test-power: lock-under-test ## servers that lose power and everything that was not fsynced (needs root)
	$(TEST) --nemesis power --persistence aof-everysec $(OPTIONS)

# A lock that ignores how long the replies took fails when they are slow.
SLOW_ANSWERS = --nemesis latency:interval=2s,duration=4s,kind=delay,delay=300ms-600ms,direction=from-node,targets=all \
               --node-timeout 800ms --hold uniform:600ms-950ms

test-controls: base ## locks that are broken on purpose: each must be caught as a violation blamed on the lock
	@set -e; for lock in $(CONTROLS); do \
		case $$lock in *validity*) how="$(SLOW_ANSWERS)" ;; *) how="--nemesis partition+pause" ;; esac; \
		case $$lock in *semaphore*) how="$$how --workload semaphore --permits 2" ;; \
			*rw-lock*) how="$$how --workload rw-lock" ;; *extend*) how="$$how --workload leader" ;; esac; \
		$(TEST) --expect violation --require lease --lock $$lock $$how $(if $(DURATION),,--duration 20s) $(COMMON); done
	.venv/bin/fencepost script client-clock-step-by-the-wall $(if $(CLUSTER),--cluster $(CLUSTER))
	@.venv/bin/fencepost list --last $(words $(CONTROLS) $(SCRIPTED_CONTROL))

test-standard: lock-under-test ## every class of fault, several at once, under loads that change
	$(TEST) --nemesis standard --clients 5 $(if $(DURATION),,--duration 60s) $(OPTIONS)

# A violation in one of them must not hide what the others find, so all are made and told together.
TESTS = test-standard test-partition test-latency test-pause test-crash test-controls

test-all: lock-under-test ## all of these except test-power, and what they found: how often, how soon
	@began=$$(date -u +%Y%m%dT%H%M%SZ); failed=; \
	for test in $(TESTS); do $(MAKE) --no-print-directory $$test || failed="$$failed $$test"; done; \
	.venv/bin/fencepost list --since $$began; .venv/bin/fencepost list --findings --since $$began; \
	test -z "$$failed" || { echo "not as expected:$$failed" >&2; exit 1; }

report-fsync: setup ## the report on fsync=always or a delayed restart: three hours, as root; QUICK=1: seven minutes
	.venv/bin/fencepost compare --grid fsync $(if $(QUICK),--quick) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(WORKERS),--workers $(WORKERS)) $(if $(REPORT),--report $(REPORT)) $(if $(CLUSTER),-- --cluster $(CLUSTER))

flips: dev ## flip every comparison of the judge, one at a time; each must fail a test (MODULE=counter: only there)
	.venv/bin/python tests/flips.py $(MODULE) $(ARGS)

same-verdicts: dev ## is every recorded run in RUNS=folder judged as the revision BASE judges it?
	@test -n "$(BASE)" -a -n "$(RUNS)" || { echo "same-verdicts: name both, as in: make same-verdicts BASE=main~5" \
		"RUNS=results/runs" >&2; exit 1; }
	.venv/bin/python tests/same_verdicts.py $(BASE) $(RUNS) $(ARGS)

mutants: base ## which faults find which of the broken reference locks? four hours; QUICK=1: half an hour
	.venv/bin/fencepost mutants $(if $(QUICK),--quick) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(WORKERS),--workers $(WORKERS)) $(if $(REPORT),--report $(REPORT)) $(if $(CLUSTER),--cluster $(CLUSTER)) $(ARGS)

claims: base ## what is said about locks on Redis, settled by experiment; QUICK=1: a small version in a quarter of an hour
	.venv/bin/fencepost claims $(if $(QUICK),--quick) --workers $(or $(WORKERS),3) $(if $(REPORT),--report $(REPORT)) \
		--cluster $(or $(CLUSTER),process) $(ARGS)

survey: base ## which lock library keeps which promise? ten hours; QUICK=1: a part of it in a quarter of an hour
	.venv/bin/fencepost survey $(if $(QUICK),--quick) $(if $(SEEDS),--seeds $(SEEDS)) --workers $(or $(WORKERS),2) \
		$(if $(REPORT),--report $(REPORT)) $(if $(CLUSTER),--cluster $(CLUSTER)) $(ARGS)

published: base ## draw every page below results/ again from its record; ARGS=--check: say which ones differ
	.venv/bin/python tools/published.py $(ARGS)

systems: base ## locks on Redis, PostgreSQL, etcd and ZooKeeper under the same faults: four hours; QUICK=1: a quarter of an hour
	.venv/bin/fencepost study systems $(if $(QUICK),--quick) $(if $(SEEDS),--seeds $(SEEDS)) \
		--workers $(or $(WORKERS),2) $(if $(REPORT),--report $(REPORT)) $(ARGS)

nightly: setup ## the standard faults on many locks, other ones each night, with a page: two hours; QUICK=1: some minutes
	.venv/bin/fencepost nightly $(if $(QUICK),--quick) $(if $(BUDGET),--budget $(BUDGET)) \
		$(if $(WORKERS),--workers $(WORKERS)) $(if $(REPORT),--report $(REPORT)) \
		$(if $(CLUSTER),--cluster $(CLUSTER)) $(ARGS)

# The parts of the nightly job that are no runs of `fencepost nightly`. A verdict may be "unknown" (2) where two processors
# are busy with so many clients; that a library breaks its promise (1) is a result.
many-clients: lock-under-test ## a run of 128 clients (CLIENTS=256) must end with a verdict within five minutes
	timeout 300 $(TEST) --nemesis partition --retry-delay 1s $(if $(LOCK),,--lock redlock) $(if $(CLIENTS),,--clients 128) \
		$(OPTIONS) || test $$? = 2

foreign: setup dev lock-under-test ## install the foreign lock LOCK, test its adapter, and play it under the standard faults
	@test -n "$(LOCK)" || { echo "foreign: name a lock, as in: make foreign LOCK=redsync" >&2; exit 1; }
	.venv/bin/pytest tests/locks --must-have lock:$(LOCK)
	$(TEST) --nemesis standard $(if $(DURATION),,--duration 60s) $(OPTIONS) || test $$? = 1

foreign-names:
	@.venv/bin/python -m tests.foreign_names

fuzz: setup dev ## every entrance of fencepost, with forty times the examples of its own tests (TIMES=40), other ones each time
	FENCEPOST_FUZZ=$(or $(TIMES),40) .venv/bin/pytest tests/fuzz $(ARGS)

fuzz-judge: dev ## thousands of runs in a small world: no correct lock is blamed, each wrong judge is exposed (RUNS=2000 SEED=1 WORKERS=2)
	.venv/bin/python -m tests.world.fuzz --runs $(or $(RUNS),2000) --seed $(or $(SEED),1) --workers $(or $(WORKERS),2) $(ARGS)

house: dev ## how far the code is from what it is to become: circles of imports, deep functions, names used twice (ARGS=--where)
	.venv/bin/python -m tests.house $(ARGS)

no-blame: dev lock-under-test ## is a correct lock ever blamed? 64 clients, too few processors, clients that are stopped or frozen; as root
	.venv/bin/python -m tests.no_blame $(if $(SEED),--seed $(SEED)) $(ARGS)

no-blame-under-faults: dev lock-under-test ## the same of correct locks, in every workload, under every nemesis: 20 minutes; as root
	.venv/bin/python -m tests.no_blame_under_faults $(if $(SEED),--seed $(SEED)) --at-once $(or $(WORKERS),3) $(ARGS)

no-blame-standard: dev lock-under-test ## the same of correct locks under the standard faults alone, with 2 to 12 clients (RUNS=300 WORKERS=3)
	.venv/bin/python -m tests.no_blame_standard --runs $(or $(RUNS),300) $(if $(SEED),--seed $(SEED)) --at-once $(or $(WORKERS),3) $(ARGS)

signals: dev ## end short runs by signals at random moments; nothing may be left (COUNT=20 CLUSTER=both)
	.venv/bin/python -m tests.signals --count $(or $(COUNT),20) $(if $(CLUSTER),--cluster $(CLUSTER)) $(ARGS)

surroundings: dev ## short runs in hostile surroundings: Python's variables, limits, full disks, odd folders (ONLY=limit); as root
	.venv/bin/python -m tests.surroundings $(if $(ONLY),--only "$(ONLY)") $(ARGS)

engines: setup dev ## short runs with other Docker engines: a second one, userns-remap, rootless, Podman (ONLY=Podman); as root
	.venv/bin/python -m tests.engines $(if $(ONLY),--only "$(ONLY)") $(ARGS)

tampered: dev ## damage recorded runs in every way; none may be believed (COUNT=1000)
	.venv/bin/python -m tests.tampered --count $(or $(COUNT),1000) $(ARGS)

screenshots: setup ## the pictures of the pages in docs/pictures, of real runs (needs Chromium; two minutes)
	.venv/bin/python tools/screenshots.py

diagrams: setup ## the space-time diagrams in docs/pictures again, of real runs (half a minute)
	.venv/bin/python tools/diagrams.py

lint: dev ## ruff, mypy, the import contracts between folders, and actionlint of the workflows
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/mypy tools/*.py
	cd pytest_plugin && ../.venv/bin/mypy --config-file ../pyproject.toml -p pytest_fencepost
	.venv/bin/lint-imports
	@$(PYTHON) tools/lint_workflows.py

recording: base ## the recording in the README again, of a real run
	@$(PYTHON) tools/recording.py

docs: ## the documentation as a site, in build/site
	@$(PYTHON) tools/site.py

lock: ## resolve requirements.lock again from pyproject.toml
	@$(PYTHON) tools/lock.py

clean: ## remove resources left by crashed runs; ARGS=--all: also of other users and folders, and all images
	@if test -x .venv/bin/fencepost; then .venv/bin/fencepost clean $(ARGS); else echo "clean: nothing is set up here"; fi
