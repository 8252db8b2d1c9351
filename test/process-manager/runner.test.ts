/** The promises of the runner, in each shell, with a process that keeps a journal. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, readlink, rm, writeFile } from "node:fs/promises";
import { suite, test } from "node:test";
import { promisify } from "node:util";
import { KeptFiles, sumOf } from "../../functions/advance-process-restart/process-manager/kept-files.ts";
import { eventually } from "../controlplane/api.ts";
import type { Launched } from "../controlplane/processes.ts";
import { packagesForTests } from "../support/packages.ts";
import { hasContainers, type PlayedPod, patienceMs, runnerScript, withPod } from "./pod.ts";
import { runnerShells, shellWithoutSums } from "./shells.ts";

const packages = await packagesForTests();
const shells = packages === undefined ? [] : await runnerShells(packages);

const sumOfTexts = (files: Readonly<Record<string, string | Buffer>>): string =>
  sumOf(new Map(Object.entries(files).map(([name, content]) => [name, Buffer.from(content)])));

/** Keeps files as the server does, and returns their sum. */
function keep(pod: PlayedPod, text: string): string {
  const files = new Map([["db.yml", Buffer.from(text)]]);
  const sum = sumOf(files);
  new KeptFiles(pod.path("files")).keep(sum, files);
  return sum;
}

/** Its exit code. */
function endOf(launched: Launched): Promise<number> {
  return eventually("the end of a container", patienceMs, async () => launched.end()?.code ?? undefined);
}

for (const shell of shells) {
  suite(`the runner in ${shell.name}`, { concurrency: 8 }, () => {
    test("a new pod copies the mounted files and needs no server; a stop and a start give another process with the files asked for", () =>
      withPod(shell, async (pod) => {
        pod.start();
        const first = await pod.reported("started");
        assert.equal(first.sum, sumOfTexts({ "db.yml": "first" }));
        await pod.journaled("start first");
        const sum = keep(pod, "second");
        await pod.command(`stop 1 ${sum}`);
        const stopped = await pod.reported("stopped", 1);
        assert.deepEqual([stopped.pid, await pod.journal()], [undefined, ["start first", "stop"]]);
        await pod.command(`start 2 ${sum}`);
        const second = await pod.reported("started", 2);
        await pod.journaled("start second");
        assert.deepEqual([second.sum, second.attempts], [sum, 1]);
        assert.notEqual(second.processId, first.processId);
      }));

    test("a process that ends unasked ends its container with its status, and starts again with the files that it had", () =>
      withPod(
        shell,
        async (pod) => {
          const environment = { CRASH: pod.path("crash"), CRASH_CODE: "7" };
          const one = pod.start({ environment });
          await pod.journaled("start first");
          await pod.mount({ "db.yml": "later" });
          await writeFile(pod.path("crash"), "");
          assert.equal(await endOf(one), 7);
          assert.equal(pod.report()?.state, "failed");
          await rm(pod.path("crash"));
          pod.start();
          await pod.journaled("start first", 2);
          assert.equal((await pod.reported("started")).attempts, 2);
          const sum = keep(pod, "later");
          await pod.command(`stop 1 ${sum}`);
          await pod.reported("stopped", 1);
          await pod.command(`start 2 ${sum}`);
          assert.equal((await pod.reported("started", 2)).attempts, 1);
        },
      ));

    test("TERM ends the process, whose status is the runner's; HUP, USR1 and USR2 reach the process as well", () =>
      withPod(
        shell,
        async (pod) => {
          const runner = pod.start();
          await pod.journaled("start first");
          for (const signal of ["HUP", "USR1", "USR2"] as const) {
            process.kill(runner.pid ?? 0, `SIG${signal}`);
            await pod.journaled(`signal ${signal}`);
          }
          process.kill(runner.pid ?? 0, "SIGTERM");
          assert.equal(await endOf(runner), 9);
          assert.deepEqual((await pod.journal()).at(-1), "stop");
          assert.equal(pod.report()?.state, "waiting");
        },
        { environment: { EXIT_CODE: "9" } },
      ));

    test("a stopped process stays stopped when its container restarts, and after the runner was killed", () =>
      withPod(shell, async (pod) => {
        const one = pod.start();
        await pod.journaled("start first");
        await pod.command("stop 4 -");
        await pod.reported("stopped", 4);
        process.kill(one.pid ?? 0, "SIGKILL");
        await one.ended;
        const beat = readFileSync(pod.path("files", "beat"), "utf8");
        await rm(pod.path("state", "runner"));
        const two = pod.start();
        await pod.reported("stopped", 4);
        await eventually("two beats", patienceMs, async () =>
          Number(readFileSync(pod.path("files", "beat"), "utf8")) > 2 || beat === "" ? true : undefined,
        );
        assert.deepEqual(await pod.journal(), ["start first", "stop"]);
        process.kill(two.pid ?? 0, "SIGTERM");
        assert.equal(await endOf(two), 0);
        pod.start();
        await pod.reported("stopped", 4);
        await pod.command("start 5 -");
        await pod.journaled("start first", 2);
      }));

    test("a process that ignores TERM is stopping until it is killed", () =>
      withPod(
        shell,
        async (pod) => {
          pod.start();
          await pod.journaled("start first");
          await pod.command("stop 1 -");
          await pod.reported("stopping", 1);
          await pod.journaled("ignored");
          await pod.command("kill 2 -");
          await pod.reported("killed", 2);
          await pod.command("start 3 -");
          await pod.journaled("start first", 2);
        },
        { environment: { STUBBORN: "yes" } },
      ));

    test("a hook runs before each start and each stop, and a start whose hook fails ends the container", () =>
      withPod(shell, async (pod) => {
        const before = await pod.hook("before", 'echo "before $(cat "$SLUICE_FILES/current/db.yml")" >>"$JOURNAL"');
        const after = await pod.hook("after", 'echo after >>"$JOURNAL"; sleep 1');
        const failing = `${before}; [ ! -e ${pod.path("fail")} ] || exit 5`;
        const hooks = { SLUICE_PRE_START: failing, SLUICE_PRE_STOP: after };
        const runner = pod.start({ environment: hooks });
        await pod.journaled("start first");
        await pod.command("stop 1 -");
        await pod.reported("stopped", 1);
        assert.deepEqual(await pod.journal(), ["before first", "start first", "after", "stop"]);
        await writeFile(pod.path("fail"), "");
        await pod.command("start 2 -");
        assert.equal(await endOf(runner), 5);
        assert.deepEqual([pod.report()?.state, pod.report()?.attempts], ["startFailed", 1]);
        assert.equal((await pod.journal()).at(-1), "before first");
      }));

    test("a kill does not wait for the hook of a stop", () =>
      withPod(shell, async (pod) => {
        pod.start({ environment: { SLUICE_PRE_STOP: "sleep 60" } });
        await pod.journaled("start first");
        await pod.command("stop 1 -");
        await pod.reported("stopping", 1);
        await pod.command("kill 2 -");
        await pod.reported("killed", 2);
        assert.deepEqual(await pod.journal(), ["start first"]);
      }));

    test("files that are lost are waited for, and after that time the mounted ones are taken", () =>
      withPod(shell, async (pod) => {
        const sum = keep(pod, "second");
        await pod.command(`start 1 ${sum}`);
        const one = pod.start();
        await pod.journaled("start second");
        one.signal("SIGKILL");
        await one.ended;
        const lose = async () => {
          for (const name of readdirSync(pod.path("files"))) await rm(pod.path("files", name), { recursive: true });
        };
        await lose();
        const two = pod.start();
        await pod.reported("waiting");
        keep(pod, "second");
        await pod.journaled("start second", 2);
        two.signal("SIGKILL");
        await two.ended;
        await lose();
        pod.start({ environment: { SLUICE_FILES_SECONDS: "1" } });
        await pod.journaled("start first");
        assert.match(pod.log(), /no files of the sum 1:\w+ came within 1 s/);
      }));

    test("an empty Secret is waited for, and a stop is obeyed meanwhile; without a Secret the process starts at once", async () => {
      await withPod(
        shell,
        async (pod) => {
          pod.start();
          await pod.reported("waiting");
          await pod.command("stop 1 -");
          await pod.reported("stopped", 1);
          await pod.command("start 2 -");
          await pod.reported("waiting", 2);
          await pod.mount({ "db.yml": "filled" });
          await pod.journaled("start filled");
        },
        { files: {} },
      );
      await withPod(
        shell,
        async (pod) => {
          pod.start();
          assert.equal((await pod.reported("started")).sum, undefined);
          await pod.journaled("start");
        },
        { files: undefined },
      );
    });
  });

  suite(`the runner as PID 1 in ${shell.name}`, { concurrency: 8, skip: !hasContainers }, () => {
    test("it stops and starts the process, ends with its status, and reaps", () =>
      withPod(
        shell,
        async (pod) => {
          const container = pod.start({ isContainer: true });
          const first = await pod.reported("started");
          await pod.journaled("start first");
          await pod.command("stop 1 -");
          await pod.reported("stopped", 1);
          await pod.command("start 2 -");
          const second = await pod.reported("started", 2);
          assert.notEqual(first.processId, second.processId);
          await pod.journaled("start first", 2);
          process.kill(await pod.runnerPid(container), "SIGTERM");
          assert.equal(await endOf(container), 9);
        },
        { environment: { EXIT_CODE: "9" } },
      ));

    test("it is stopped only when all that the process has started is gone", () =>
      withPod(shell, async (pod) => {
        pod.start({ isContainer: true, environment: { HELPER: pod.path("end-helper") } });
        await pod.journaled("start first");
        await pod.command("stop 1 -");
        await pod.journaled("stop");
        await eventually(
          "a beat after the stop",
          patienceMs,
          async () => pod.report()?.state === "stopping" || undefined,
        );
        await writeFile(pod.path("end-helper"), "");
        await pod.reported("stopped", 1);
        assert.deepEqual((await pod.journal()).slice(-2), ["stop", "helper ends"]);
      }));

    test("a runner that is killed takes its process with it, and the next one starts another", () =>
      withPod(shell, async (pod) => {
        const one = pod.start({ isContainer: true });
        const first = await pod.reported("started");
        process.kill(await pod.runnerPid(one), "SIGKILL");
        await one.ended;
        pod.start({ isContainer: true });
        await pod.journaled("start first", 2);
        const second = await pod.reported("started");
        assert.deepEqual([second.attempts, second.processId === first.processId], [2, false]);
      }));
  });
}
