/** The promises of the stop gate, with stand-ins for RabbitMQ's tools: what it waits for, for how long, and what ends it. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { promisify } from "node:util";
import { eventually } from "../controlplane/api.ts";
import { packagesForTests } from "../support/packages.ts";
import { Gate, makePodFiles, type PodFiles, SCRIPT } from "./gate.ts";
import { type Shell, shellsOf } from "./shells.ts";
import { type Answers, StandIns } from "./stand-ins.ts";

const packages = await packagesForTests();
const shells = packages === undefined ? [] : await shellsOf(packages);

const critical = `echo "queue 'q1' in vhost '/' would lose quorum if node rabbit@a is stopped"; exit 69`;
/** Polls at once, and logs each second. */
const quick = { STOP_GATE_POLL_SECONDS: "0", STOP_GATE_SAY_SECONDS: "1" };

interface Case {
  readonly pod: PodFiles;
  readonly standIns: StandIns;
  /** Starts the gate. */
  readonly start: (settings?: Readonly<Record<string, string | undefined>>, command?: readonly string[]) => Gate;
}

async function withPod(shell: Shell, answers: Answers, body: (one: Case) => Promise<void>): Promise<void> {
  const pod = await makePodFiles();
  const gates: Gate[] = [];
  try {
    const standIns = await StandIns.make(pod, answers);
    const start: Case["start"] = (settings = {}, command = shell.command) => {
      const environment = { ...standIns.environment(shell.system), ...quick, ...settings };
      const gate = new Gate({ pod, shell: command, environment });
      gates.push(gate);
      return gate;
    };
    await body({ pod, standIns, start });
  } finally {
    for (const gate of gates) await gate.kill();
    await pod.remove();
  }
}

/** Only Linux with user namespaces can play a container. */
const hasNamespaces = spawnSync("unshare", ["--user", "--map-root-user", "--mount", "true"]).status === 0;

/** A container with `readOnlyRootFilesystem`, as kubelet starts it: only shared memory and mounts can be written. */
function readOnlyRoot({ folder }: PodFiles, { command }: Shell): readonly string[] {
  const mounts = [
    "/bin/mount -t tmpfs tmpfs /dev/shm",
    `/bin/mount --bind ${folder} ${folder}`,
    "/bin/mount -o remount,bind,ro /",
    "if /bin/mountpoint -q /tmp; then /bin/mount -o remount,bind,ro /tmp; fi",
    'exec "$@"',
  ].join(" && ");
  return ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", mounts, "sh", ...command];
}

/** Processes whose command line contains `word`. */
function processesWith(word: string): string[] {
  const lines = execFileSync("ps", ["-A", "-o", "pid=,args="], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.includes(word));
}

// The tests mostly wait.
suite("the stop gate", { skip: packages === undefined, concurrency: 8 }, () => {
  for (const shell of shells) {
    const name = (promise: string) => `${shell.name}: ${promise}`;

    for (const [what, text] of Object.entries({ true: "true", false: "false", blanks: "  \n" })) {
      test(name(`a marker with ${what} in it ends the gate at once: it asks nothing and drains nothing`), async () => {
        await withPod(shell, { quorum: critical }, async ({ pod, standIns, start }) => {
          await writeFile(pod.marker, text);
          const { code, outcome, tookMs } = await start().ended;
          assert.deepEqual([code, outcome, await standIns.calls()], [0, "skip-marker", []]);
          assert.ok(tookMs < 5_000, `${tookMs} ms`);
        });
      });
    }

    test(name("an empty marker counts as missing"), async () => {
      await withPod(shell, { quorum: critical }, async ({ pod, start }) => {
        await writeFile(pod.marker, "");
        await start().reported(/^waits \(quorum-critical\)/, 10_000);
      });
    });

    test(name("a marker that appears between two polls ends the wait, and so does a second file"), async () => {
      await withPod(shell, { quorum: critical }, async ({ pod, standIns, start }) => {
        const byPerson = join(pod.folder, "by-person");
        const gate = start({ STOP_GATE_POLL_SECONDS: "600", STOP_GATE_SKIP_FILES: `${pod.marker} ${byPerson}` });
        await gate.reported(/^waits \(quorum-critical\)/, 10_000);
        const markedMs = performance.now();
        await writeFile(byPerson, "true");
        const { code, outcome } = await gate.ended;
        assert.deepEqual([code, outcome], [0, "skip-marker"]);
        assert.ok(performance.now() - markedMs < 4_000);
        assert.ok(!(await standIns.calls()).some((call) => call.includes("drain")));
      });
    });

    for (const readme of ["stop-gate/README.md", "README.md"]) {
      test(name(`in a container with a read-only root, the command of ${readme} ends the wait`), {
        skip: !hasNamespaces,
      }, async () => {
        const text = await readFile(join(SCRIPT, "../..", readme), "utf8");
        const command = /^kubectl exec POD -c rabbitmq -- sh -c '(.*)'$/m.exec(text)?.[1] ?? assert.fail("no command");
        await withPod(shell, { quorum: critical }, async ({ pod, start }) => {
          const gate = start({ STOP_GATE_SKIP_FILES: undefined }, readOnlyRoot(pod, shell));
          await gate.reported(/^waits \(quorum-critical\)/, 20_000);
          const inContainer = ["--target", String(gate.pid), "--user", "--mount", "--preserve-credentials"];
          const exec = (script: string) => promisify(execFile)("nsenter", [...inContainer, "sh", "-c", script]);
          await assert.rejects(exec("echo true > /tmp/skipPreStopChecks"), /Read-only file system/);
          await exec(command);
          assert.equal((await gate.ended).outcome, "skip-marker");
        });
      });
    }

    test(name("a marker that appears while a tool hangs ends the wait, and the tool"), async () => {
      const word = `600.${process.pid}1${shell.name.length}`;
      await withPod(shell, { ping: `sleep ${word}` }, async ({ pod, standIns, start }) => {
        const gate = start();
        await eventually("ping is asked", 10_000, async () => ((await standIns.calls()).length > 0 ? true : undefined));
        await writeFile(pod.marker, "true");
        assert.equal((await gate.ended).outcome, "skip-marker");
      });
    });

    test(
      name(
        "the gate waits while a queue is critical, logs which one each minute, and drains when none is critical any more",
      ),
      async () => {
        await withPod(shell, { quorum: critical }, async ({ standIns, start }) => {
          const gate = start();
          const output = await eventually("three lines", 20_000, async () => {
            const lines = (await gate.lines()).filter((line) => line.startsWith("waits "));
            return lines.length >= 3 ? lines : undefined;
          });
          for (const line of output) {
            assert.match(
              line,
              /^waits \(quorum-critical\) since \d+ s, for at most another 6 d: queue 'q1' in vhost '\/' would/,
            );
          }
          assert.ok(gate.isRunning());
          await standIns.answer({ quorum: 0 });
          const { code, outcome, report } = await gate.ended;
          assert.deepEqual([code, outcome], [0, "passed"]);
          assert.match(report, /^stop-gate: passed: no queue needs this node; it is drained$/);
          assert.equal((await standIns.calls()).at(-1), "rabbitmq-upgrade -q drain -t 60");
        });
      },
    );

    test(
      name(
        "while a queue is critical the gate waits until the end of the grace period, whatever the policy is; then it drains within the reserve",
      ),
      async () => {
        const grace = { STOP_GATE_GRACE_SECONDS: "8", STOP_GATE_DRAIN_SECONDS: "2", STOP_GATE_RESERVE_SECONDS: "2" };
        const policy = { STOP_GATE_ON_UNKNOWN: "release", STOP_GATE_UNKNOWN_SECONDS: "0" };
        await withPod(shell, { quorum: critical }, async ({ standIns, start }) => {
          const { code, outcome, report, tookMs } = await start({ ...grace, ...policy }).ended;
          assert.deepEqual([code, outcome], [1, "grace-over"]);
          assert.match(
            report,
            /last answer was \(quorum-critical\): queue 'q1' in vhost '\/' would lose quorum .*; it is drained$/,
          );
          assert.ok(tookMs > 2_900 && tookMs < 7_000, `${tookMs} ms`);
          assert.equal((await standIns.calls()).at(-1), "rabbitmq-upgrade -q drain -t 2");
        });
      },
    );

    test(
      name("a grace period that is too short for drain and reserve is divided, and the gate reports that"),
      async () => {
        await withPod(shell, { quorum: critical }, async ({ standIns, start }) => {
          const { outcome, lines, tookMs } = await start({ STOP_GATE_GRACE_SECONDS: "6" }).ended;
          assert.equal(outcome, "grace-over");
          assert.match(
            lines[0] ?? "",
            /^settings: 60 s to drain and 30 s to stop leave nothing of a grace period of 6 s/,
          );
          assert.equal((await standIns.calls()).at(-1), "rabbitmq-upgrade -q drain -t 2");
          assert.ok(tookMs < 5_500, `${tookMs} ms`);
        });
      },
    );

    test(
      name("by default the gate waits for unknown answers, and with `release` it ends after a while, with exit code 1"),
      async () => {
        await withPod(shell, { quorum: 75 }, async ({ start }) => {
          const grace = { STOP_GATE_GRACE_SECONDS: "8", STOP_GATE_DRAIN_SECONDS: "2", STOP_GATE_RESERVE_SECONDS: "2" };
          assert.equal((await start({ ...grace, STOP_GATE_UNKNOWN_SECONDS: "0" }).ended).outcome, "grace-over");
        });
        await withPod(shell, { quorum: 75 }, async ({ start }) => {
          const gate = start({ STOP_GATE_ON_UNKNOWN: "release", STOP_GATE_UNKNOWN_SECONDS: "3" });
          const { code, outcome, report, tookMs } = await gate.ended;
          assert.deepEqual([code, outcome], [1, "released-unknown"]);
          assert.match(report, /the check for quorum with 75: not a word; it is drained$/);
          assert.ok(tookMs > 2_000, `${tookMs} ms`);
        });
      },
    );

    test(
      name("a single answer that the node is down does not end the gate, because the next answer may differ"),
      async () => {
        const gone = `echo "epmd reports: node 'rabbit' not running at all"; exit 69`;
        await withPod(shell, { ping: 69, quorum: gone }, async ({ standIns, start }) => {
          const gate = start({ STOP_GATE_POLL_SECONDS: "2" });
          await gate.reported(/^waits \(node-down\)/, 10_000);
          await standIns.answer({ ping: 0, quorum: critical });
          await gate.reported(/^waits \(quorum-critical\)/, 10_000);
          await standIns.answer({ ping: 69, quorum: gone });
          const { code, outcome, lines } = await gate.ended;
          assert.deepEqual([code, outcome], [0, "node-down"]);
          // Another answer came in between, so two more must agree.
          assert.equal(lines.filter((line) => line.startsWith("waits (node-down)")).length, 2, lines.join("\n"));
          assert.ok(!(await standIns.calls()).some((call) => call.includes("drain")), "there is nothing to drain");
        });
      },
    );

    for (const [answer, output] of [
      [69, /draining it ended with 69, which released versions also say when it worked$/],
      [75, /draining it ended with 75: not a word$/],
      ["sleep 600", /draining it ended with 124: rabbitmq-upgrade did not end within 2 s$|draining it was cut short$/],
    ] as const) {
      test(name(`the gate ends whatever draining answers (${answer}), because that was decided before`), async () => {
        await withPod(shell, { drain: answer }, async ({ start }) => {
          const { code, outcome, report, tookMs } = await start({ STOP_GATE_DRAIN_SECONDS: "2" }).ended;
          assert.deepEqual([code, outcome], [0, "passed"]);
          assert.match(report, output);
          assert.ok(tookMs < 10_000, `${tookMs} ms`);
        });
      });
    }

    test(name("a tool that hangs is killed with its children, and counts as no answer"), async () => {
      const word = `600.${process.pid}2${shell.name.length}`;
      await withPod(shell, { quorum: `sleep ${word} & wait` }, async ({ standIns, start }) => {
        // The busybox image here has no setsid, so only the tool itself can be killed there.
        if (shell.name === "busybox sh") await standIns.answer({ quorum: `exec sleep ${word}` });
        const gate = start({ STOP_GATE_CALL_SECONDS: "1" });
        const line = await gate.reported(/^waits \(no-answer\)/, 30_000);
        assert.match(line, /the check for quorum with 124: rabbitmq-queues did not end within 16 s$/);
        await standIns.answer({ quorum: 0 });
        assert.equal((await gate.ended).outcome, "passed");
        assert.deepEqual(processesWith(word), []);
      });
    });

    test(
      name("settings that are no numbers neither end the gate nor break it: it takes the default, and reports that"),
      async () => {
        await withPod(shell, { quorum: critical }, async ({ start }) => {
          const gate = start({
            STOP_GATE_GRACE_SECONDS: "1h; exit 0",
            STOP_GATE_ON_UNKNOWN: "go",
            STOP_GATE_RESERVE_SECONDS: "030",
          });
          const line = await gate.reported(/^settings: /, 10_000);
          for (const name of ["GRACE_SECONDS", "RESERVE_SECONDS"])
            assert.ok(line.includes(`STOP_GATE_${name} is not a whole`), line);
          assert.match(line, /STOP_GATE_ON_UNKNOWN is neither wait nor release, so wait is taken/);
          await gate.reported(/^waits \(quorum-critical\) since \d+ s, for at most another 6 d/, 10_000);
        });
      },
    );

    test(name("if nothing can be written, the gate asks nothing, and says so in the hook's output"), async () => {
      await withPod(shell, {}, async ({ standIns, start }) => {
        await standIns.add("mkdir", "#!/bin/sh\nexit 1\n");
        const gate = start({ STOP_GATE_ON_UNKNOWN: "release", STOP_GATE_UNKNOWN_SECONDS: "0" });
        const { code, outcome, report } = await gate.ended;
        assert.deepEqual([code, outcome], [1, "released-unknown"]);
        assert.match(report, /no folder can be written, so nothing can be asked; it is not drained$/);
        assert.match(gate.printed(), /stop-gate: released-unknown/);
      });
    });

    test(name("a log without a reader does not block the gate"), async () => {
      await withPod(shell, { quorum: critical }, async ({ pod, standIns, start }) => {
        const pipe = join(pod.folder, "pipe");
        await promisify(execFile)("mkfifo", [pipe]);
        const reader = await open(pipe, "r+");
        try {
          // 64 KiB fill the pipe.
          await reader.write("x".repeat(65_536));
          const gate = start({ STOP_GATE_LOG: pipe });
          await eventually("two polls", 20_000, async () => ((await standIns.calls()).length > 7 ? true : undefined));
          await writeFile(pod.marker, "true");
          assert.equal((await gate.ended).outcome, "skip-marker");
        } finally {
          await reader.close();
        }
      });
    });

    test(name("a hook that runs twice at once makes two gates that end alike"), async () => {
      await withPod(shell, { quorum: critical }, async ({ standIns, start }) => {
        const both = [start(), start()];
        await eventually("two polls of each", 20_000, async () =>
          (await standIns.calls()).length > 12 ? true : undefined,
        );
        await standIns.answer({ quorum: 0 });
        const ends = await Promise.all(both.map((gate) => gate.ended));
        assert.deepEqual(
          ends.map(({ code }) => code),
          [0, 0],
        );
      });
    });
  }
});

test("shellcheck finds no fault in the script", { skip: packages === undefined }, async () => {
  const found = await promisify(execFile)(packages?.shellcheck ?? "", [SCRIPT]).catch(({ stdout }) => ({ stdout }));
  assert.equal(found.stdout, "");
});
