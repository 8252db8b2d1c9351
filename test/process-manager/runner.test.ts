/** The promises of the runner, in each shell, with a process that keeps a journal. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { suite, test } from "node:test";
import { promisify } from "node:util";
import { KeptFiles, sumOf } from "../../functions/advance-process-restart/process-manager/kept-files.ts";
import { packagesForTests } from "../support/packages.ts";
import { endOf, hasContainers, type PlayedPod, runnerScript, withPod } from "./pod.ts";
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

// The tests mostly wait.
suite("the runner", { concurrency: 24, skip: packages === undefined }, () => {
  for (const shell of shells) {
    const name = (promise: string) => `${shell.name}: ${promise}`;
    test(
      name(
        "a new pod copies the mounted files and needs no server; a stop and a start give another process with the files asked for",
      ),
      () =>
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
        }),
    );

    test(
      name(
        "a process that ends unasked ends its container with its status, and starts again with the files that it had",
      ),
      () =>
        withPod(shell, async (pod) => {
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
        }),
    );

    test(
      name("TERM ends the process, whose status is the runner's; HUP, USR1 and USR2 reach the process as well"),
      () =>
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
        ),
    );

    test(name("a stopped process stays stopped when its container restarts, and after the runner was killed"), () =>
      withPod(shell, async (pod) => {
        const one = pod.start();
        await pod.journaled("start first");
        await pod.command("stop 4 -");
        await pod.reported("stopped", 4);
        process.kill(one.pid ?? 0, "SIGKILL");
        await one.ended;
        await rm(pod.path("state", "runner"));
        const two = pod.start();
        await pod.reported("stopped", 4);
        await pod.beats(2);
        assert.deepEqual(await pod.journal(), ["start first", "stop"]);
        process.kill(two.pid ?? 0, "SIGTERM");
        assert.equal(await endOf(two), 0);
        pod.start();
        await pod.reported("stopped", 4);
        await pod.command("start 5 -");
        await pod.journaled("start first", 2);
      }),
    );

    test(name("a process that ignores TERM is stopping until it is killed"), () =>
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
      ),
    );

    test(name("a runner that is killed before its process runs leaves the files of its command to the next one"), () =>
      withPod(shell, async (pod) => {
        const sum = keep(pod, "second");
        await pod.command(`start 1 ${sum}`);
        const one = pod.start({ environment: { SLUICE_PRE_START: "sleep 60" } });
        assert.equal((await pod.reported("waiting", 1)).sum, sum);
        one.signal("SIGKILL");
        await one.ended;
        pod.start();
        await pod.journaled("start second");
      }),
    );

    test(name("a hook runs before each start and each stop, and a start whose hook fails ends the container"), () =>
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
      }),
    );

    test(name("a kill does not wait for the hook of a stop"), () =>
      withPod(shell, async (pod) => {
        pod.start({ environment: { SLUICE_PRE_STOP: "sleep 60" } });
        await pod.journaled("start first");
        await pod.command("stop 1 -");
        await pod.reported("stopping", 1);
        await pod.command("kill 2 -");
        await pod.reported("killed", 2);
        assert.deepEqual(await pod.journal(), ["start first"]);
      }),
    );

    test(name("files that are lost are waited for, and after that time the mounted ones are taken"), () =>
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
      }),
    );

    test(
      name(
        "an empty Secret is waited for, and a stop is obeyed meanwhile; without a Secret the process starts at once",
      ),
      async () => {
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
      },
    );

    test(name("the sum is that of the server, for files of any bytes and names"), async () => {
      const files = {
        ".hidden": "a",
        "a-b": "b",
        "a.b": Buffer.from([0, 10, 255, 0, 13, 10]),
        B: "",
        a_b: "\n\n",
        "db.yml": "x".repeat(70_000),
      };
      await withPod(
        shell,
        async (pod) => {
          pod.start();
          assert.equal((await pod.reported("started")).sum, sumOfTexts(files));
          assert.deepEqual(readFileSync(pod.path("files", "current", "a.b")), files["a.b"]);
        },
        { files },
      );
    });

    test(name("each file is linked into another folder as well, and a file that is gone is no longer there"), () =>
      withPod(
        shell,
        async (pod) => {
          await mkdir(pod.path("config"));
          await writeFile(pod.path("config", "db.yml"), "of the image");
          await writeFile(pod.path("config", "other"), "of the image");
          pod.start({ environment: { SLUICE_LINK_INTO: pod.path("config") } });
          await pod.reported("started");
          assert.equal(readFileSync(pod.path("config", "db.yml"), "utf8"), "first");
          assert.deepEqual(readdirSync(pod.path("config")).sort(), ["db.yml", "more", "other"]);
          const sum = keep(pod, "second");
          await pod.command(`stop 1 ${sum}`);
          await pod.reported("stopped", 1);
          await pod.command(`start 2 ${sum}`);
          await pod.reported("started", 2);
          assert.equal(readFileSync(pod.path("config", "db.yml"), "utf8"), "second");
          assert.deepEqual(readdirSync(pod.path("config")).sort(), ["db.yml", "other"]);
        },
        { files: { "db.yml": "first", more: "m" } },
      ),
    );

    test(name("alive is true while the process is stopped or starts, and then what its check answers"), () =>
      withPod(shell, async (pod) => {
        const alive = async (check: string, environment = {}) =>
          endOf(pod.start({ args: ["alive", "--", "sh", "-c", check], environment }));
        pod.start();
        await pod.reported("started");
        assert.equal(await alive("exit 3", { SLUICE_START_SECONDS: "600" }), 0, "it starts");
        assert.equal(await alive("exit 3", { SLUICE_START_SECONDS: "0" }), 3, "it has had its time");
        assert.equal(await alive("exit 0"), 0);
        assert.equal(await alive("exit 3", { SLUICE_START_SECONDS: "600" }), 3, "it was alive");
        await pod.command("stop 1 -");
        await pod.reported("stopped", 1);
        assert.equal(await alive("exit 3"), 0, "it is stopped");
      }),
    );

    test(
      name("as PID 1, it stops and starts the process, ends with its status, and reaps"),
      { skip: !hasContainers },
      () =>
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
        ),
    );

    test(
      name("as PID 1, it is stopped only when all that the process has started is gone"),
      { skip: !hasContainers },
      () =>
        withPod(shell, async (pod) => {
          pod.start({ isContainer: true, environment: { HELPER: pod.path("end-helper") } });
          await pod.journaled("start first");
          await pod.command("stop 1 -");
          await pod.journaled("stop");
          await pod.beats(2);
          assert.equal(pod.report()?.state, "stopping");
          await writeFile(pod.path("end-helper"), "");
          await pod.reported("stopped", 1);
          assert.deepEqual((await pod.journal()).slice(-2), ["stop", "helper ends"]);
        }),
    );

    test(
      name("as PID 1, a runner that is killed takes its process with it, and the next one starts another"),
      { skip: !hasContainers },
      () =>
        withPod(shell, async (pod) => {
          const one = pod.start({ isContainer: true });
          await pod.journaled("start first");
          const first = await pod.reported("started");
          process.kill(await pod.runnerPid(one), "SIGKILL");
          await one.ended;
          pod.start({ isContainer: true });
          await pod.journaled("start first", 2);
          const second = await pod.reported("started");
          assert.deepEqual([second.attempts, second.processId === first.processId], [2, false]);
        }),
    );
  }
});

test("without a program for sums the process starts, and its sum is unknown", {
  skip: packages === undefined,
}, async () => {
  if (packages === undefined) return;
  await withPod(await shellWithoutSums(packages), async (pod) => {
    const one = pod.start();
    assert.equal((await pod.reported("started")).sum, "unknown");
    await pod.journaled("start first");
    process.kill(one.pid ?? 0, "SIGTERM");
    await endOf(one);
    await pod.mount({ "db.yml": "later" });
    pod.start();
    await pod.journaled("start first", 2);
  });
});

test("a runner without a command, or without its folders, ends with code 2 and a message", {
  skip: packages === undefined,
}, async () => {
  const [shell] = shells;
  if (shell === undefined) return;
  await withPod(shell, async (pod) => {
    assert.equal(await endOf(pod.start({ args: ["alive"] })), 2);
    await rm(pod.path("state"), { recursive: true });
    assert.equal(await endOf(pod.start()), 2);
    assert.match(pod.log(), /alive needs a check: .*\n.*state is no folder that can be written/);
    await mkdir(pod.path("state"));
    const starting = pod.start({ environment: { SLUICE_FILES_SECONDS: "soon" } });
    await pod.reported("started");
    assert.match(pod.log(), /SLUICE_FILES_SECONDS is no whole number of seconds, so 60 is taken/);
    starting.signal("SIGKILL");
  });
});

test("shellcheck finds no fault in the runner", { skip: packages === undefined }, async () => {
  const { stdout } = await promisify(execFile)(packages?.shellcheck ?? "", [runnerScript]).catch((error) => error);
  assert.equal(stdout, "");
});
