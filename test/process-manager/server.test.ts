/** The promises of the server, over real connections, with the shipped runner and a process that keeps a journal. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { suite, test } from "node:test";
import type { ProcessVerb } from "../../functions/advance-process-restart/process-manager/decide-call.ts";
import { sumOf } from "../../functions/advance-process-restart/process-manager/kept-files.ts";
import { eventually } from "../controlplane/api.ts";
import { createAuthority } from "../support/certificates.ts";
import { packagesForTests } from "../support/packages.ts";
import { patienceMs } from "./pod.ts";
import { podUid, ServedPod } from "./served-pod.ts";
import { type RunnerShell, runnerShells } from "./shells.ts";

const packages = await packagesForTests();
const shells = packages === undefined ? [] : await runnerShells(packages);

const sumOfText = (text: string): string => sumOf(new Map([["db.yml", Buffer.from(text)]]));
const [first, second] = [sumOfText("first"), sumOfText("second")];

type Options = Parameters<typeof ServedPod.make>[1];

/** Runs the body with a server, and with a process that has started. */
async function served(body: (one: ServedPod) => Promise<void>, options: Options = {}): Promise<void> {
  const one = await ServedPod.make(shells[0] as RunnerShell, options);
  try {
    one.pod.start();
    await one.serve();
    await one.reached("started");
    await one.pod.journaled("start first");
    await body(one);
  } finally {
    await one.remove();
  }
}

const statusOf = async (answer: Promise<{ readonly status: number }>): Promise<number> => (await answer).status;

// The tests mostly wait.
suite("the server", { concurrency: 8, skip: packages === undefined }, () => {
  test("a stop and a start give another process, with the files of the sum, and each answer shows the state", () =>
    served(async (one) => {
      const before = await one.status();
      const { podUid: uid, state, configChecksum, runningChecksum, stagedChecksum, lastEpoch, lastCommand } = before;
      assert.deepEqual([uid, state, configChecksum, runningChecksum], [podUid, "started", first, first]);
      assert.deepEqual([stagedChecksum, lastEpoch, lastCommand], [null, null, null]);
      assert.equal(await statusOf(one.ask("/ready")), 200);
      await one.pod.mount({ "db.yml": "second" });
      assert.equal((await one.status()).configChecksum, second);
      const stopping = await one.call("stop", { epoch: 1, sum: second });
      // A later change cannot take the files away.
      await one.pod.mount({ "db.yml": "third" });
      assert.deepEqual([stopping.status, stopping.body.lastEpoch, stopping.body.restartId], [202, 1, "restart-1"]);
      assert.equal(await statusOf(one.ask("/ready")), 503);
      const stopped = await one.reached("stopped");
      assert.deepEqual([stopped.pid, stopped.stagedChecksum, stopped.lastCommand], [null, second, "stop"]);
      assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: second })), 200);
      assert.equal(await statusOf(one.call("start", { epoch: 2, sum: second })), 202);
      const started = await one.reached("started");
      assert.deepEqual([started.runningChecksum, started.attempts], [second, 1]);
      assert.notEqual(started.processId, before.processId);
      assert.equal(await statusOf(one.call("start", { epoch: 2, sum: second })), 200);
      assert.equal(await statusOf(one.ask("/ready")), 200);
      await one.pod.journaled("start second");
      assert.deepEqual(await one.pod.journal(), ["start first", "stop", "start second"]);
    }));

  test("a process that was stopped for other files starts with those that it had where the start names none", () =>
    served(async (one) => {
      await one.pod.mount({ "db.yml": "second" });
      assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: second })), 202);
      await one.reached("stopped");
      assert.equal(await statusOf(one.call("start", { epoch: 2 })), 202);
      const started = await one.reached("started");
      assert.deepEqual([started.runningChecksum, started.configChecksum], [first, second]);
      const isWhole = async () => (await one.pod.journal()).length > 2 || undefined;
      await eventually("the journal of the second start", patienceMs, isWhole);
      assert.deepEqual(await one.pod.journal(), ["start first", "stop", "start first"]);
    }));

  test("each call comes twice, and again when it is late: no process is stopped or started twice", () =>
    served(async (one) => {
      const calls: (readonly [ProcessVerb, number])[] = [];
      for (const [verb, epoch] of [
        ["stop", 1],
        ["start", 2],
        ["stop", 3],
        ["start", 4],
      ] as const) {
        calls.push([verb, epoch]);
        for (let times = 0; times < 2; times++) {
          assert.ok((await statusOf(one.call(verb, { epoch, sum: first }))) < 300, `${verb} ${epoch}`);
        }
        const before = await one.reached(verb === "stop" ? "stopped" : "started");
        for (const [lateVerb, lateEpoch] of calls.slice(0, -1)) {
          assert.equal(await statusOf(one.call(lateVerb, { epoch: lateEpoch, sum: first })), 409);
        }
        assert.equal((await one.status()).processId, before.processId);
      }
      await one.pod.journaled("start first", 3);
      assert.deepEqual(await one.pod.journal(), ["start first", "stop", "start first", "stop", "start first"]);
    }));

  test("the pod leaves its Services before the process is stopped, and a higher epoch withdraws the stop meanwhile", () =>
    served(
      async (one) => {
        const { processId } = await one.status();
        assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 202);
        const draining = await one.status();
        assert.deepEqual([draining.state, draining.processId, draining.lastCommand], ["stopping", processId, null]);
        assert.equal(await statusOf(one.ask("/ready")), 503);
        assert.equal(await statusOf(one.call("start", { epoch: 2, sum: first })), 200);
        assert.equal(await statusOf(one.ask("/ready")), 200);
        assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 409);
        assert.equal((await one.status()).processId, processId);
        // A kill waits for nothing.
        assert.equal(await statusOf(one.call("stop", { epoch: 3 })), 202);
        assert.equal(await statusOf(one.call("kill", { epoch: 4 })), 202);
        await one.reached("killed");
        assert.deepEqual(await one.pod.journal(), ["start first"]);
      },
      { drainSeconds: "600" },
    ));

  test("a stop waits for the clients, and goes on when the server was killed meanwhile", () =>
    served(
      async (one) => {
        await one.call("stop", { epoch: 1, sum: first });
        await one.killServer();
        assert.equal((await one.reached("stopping")).lastCommand, null);
        assert.deepEqual(await one.pod.journal(), ["start first"]);
        await one.reached("stopped");
        await one.killServer();
        assert.equal((await one.reached("stopped")).lastEpoch, 1);
        assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 200);
        await one.call("start", { epoch: 2, sum: first });
        // As if it had been killed between the call and the command.
        await one.pod.command(`stop 1 ${first}`);
        await one.killServer();
        const { processId } = await one.reached("started");
        assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 409);
        await one.killServer();
        assert.equal((await one.reached("started")).processId, processId);
        assert.deepEqual(await one.pod.journal(), ["start first", "stop", "start first"]);
      },
      { drainSeconds: "4" },
    ));

  test("files that are nowhere stop nothing and start nothing, and the call may come again when they are there", () =>
    served(async (one) => {
      const { processId } = await one.status();
      const refused = await one.call("stop", { epoch: 5, sum: second });
      assert.deepEqual([refused.status, refused.body.lastEpoch, refused.body.state], [412, null, "started"]);
      assert.match(refused.body.message ?? "", /neither the mounted nor the kept files have the sum 1:/);
      assert.equal(await statusOf(one.call("stop", { epoch: 5, sum: `2:${"a".repeat(64)}` })), 412);
      assert.equal((await one.status()).processId, processId);
      await one.pod.mount({ "db.yml": "second" });
      assert.equal(await statusOf(one.call("stop", { epoch: 5, sum: second })), 202);
      await one.reached("stopped");
      assert.equal(await statusOf(one.call("start", { epoch: 6, sum: sumOfText("never") })), 412);
      assert.equal((await one.status()).state, "stopped");
      assert.equal(await statusOf(one.call("start", { epoch: 6, sum: second })), 202);
      await one.pod.journaled("start second");
    }));

  test("another pod's uid, another call of the same epoch, and a start while the process stops are refused", () =>
    served(
      async (one) => {
        assert.equal(await statusOf(one.call("stop", { epoch: 1, uid: "another" })), 409);
        assert.equal(await statusOf(one.call("stop", { epoch: 1 })), 202);
        assert.equal(await statusOf(one.call("kill", { epoch: 1 })), 409);
        assert.equal(await statusOf(one.call("stop", { epoch: 1, restartId: "restart-2" })), 409);
        assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 409);
        await one.pod.journaled("ignored");
        assert.equal(await statusOf(one.call("start", { epoch: 2 })), 409);
        assert.equal((await one.status()).lastEpoch, 1);
        assert.equal(await statusOf(one.call("kill", { epoch: 2 })), 202);
        await one.reached("killed");
        assert.equal(await statusOf(one.call("start", { epoch: 3 })), 202);
        await one.pod.journaled("start first", 2);
      },
      { environment: { STUBBORN: "yes" } },
    ));

  test("a container in back-off obeys a stop when it is back, and the answer is 202 until then", () =>
    served(async (one) => {
      const { pid } = await one.status();
      process.kill(pid ?? 0, "SIGKILL");
      await one.reached("failed");
      assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 202);
      const away = await one.reached("away");
      assert.deepEqual([away.lastCommand, await statusOf(one.ask("/ready"))], ["stop", 503]);
      assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 202);
      one.pod.start();
      await one.reached("stopped");
      assert.equal(await statusOf(one.call("stop", { epoch: 1, sum: first })), 200);
      assert.deepEqual(await one.pod.journal(), ["start first"]);
    }));

  test("the server brings the files of a process again when the memory of the pod is empty", () =>
    served(async (one) => {
      const { pid } = await one.status();
      process.kill(pid ?? 0, "SIGKILL");
      await one.reached("failed");
      for (const name of readdirSync(one.pod.path("files"))) await rm(one.pod.path("files", name), { recursive: true });
      one.pod.start();
      await one.pod.journaled("start first", 2);
      assert.equal((await one.reached("started")).runningChecksum, first);
      assert.doesNotMatch(one.pod.log(), /mounted ones are taken/);
    }));

  test("a call needs the token of now, and health and readiness need none", () =>
    served(async (one) => {
      for (const authorization of [
        undefined,
        "",
        "Bearer",
        "Bearer wrong",
        "Basic YTpi",
        `Bearer ${"x".repeat(5_000)}`,
      ]) {
        assert.equal(await statusOf(one.ask("/es/status", { authorization })), 401, authorization);
        assert.equal(await statusOf(one.ask("/es/stop", { method: "POST", authorization, body: "{}" })), 401);
        assert.equal(await statusOf(one.ask("/health", { authorization })), 200);
        assert.equal(await statusOf(one.ask("/ready", { authorization })), 200);
      }
      await writeFile(one.pod.path("token", "token"), "another");
      assert.equal(await statusOf(one.ask("/es/status")), 401);
      assert.equal(await statusOf(one.ask("/es/status", { authorization: "Bearer another" })), 200);
      await writeFile(one.pod.path("token", "token"), "\n");
      assert.equal(await statusOf(one.ask("/es/status", { authorization: "Bearer " })), 500);
      assert.equal((await one.pod.journal()).length, 1);
    }));

  test("malformed and huge requests are refused, and the server goes on", () =>
    served(async (one) => {
      const post = (body: string | Buffer) => one.ask("/es/stop", { method: "POST", body });
      const good = { podUid, restartId: "r", epoch: 1 };
      const bad = [
        {},
        { ...good, epoch: 0 },
        { ...good, epoch: "1" },
        { ...good, epoch: 1.5 },
        { ...good, epoch: null },
      ];
      const wrong = [
        ...bad,
        { ...good, restartId: "a b" },
        { ...good, podUid: "" },
        { ...good, configChecksum: "x/../y" },
      ];
      for (const fields of wrong)
        assert.equal(await statusOf(post(JSON.stringify(fields))), 400, JSON.stringify(fields));
      for (const text of ["", "rubbish", "[]", "null", "\0\0", `{"podUid":"${"a".repeat(5_000)}"}`]) {
        assert.equal(await statusOf(post(text)), 400, text.slice(0, 20));
      }
      const huge = await post(Buffer.alloc(100 * 1024 * 1024, "a"));
      assert.deepEqual([huge.status, huge.body.message], [400, "the body has more than 4096 bytes"]);
      assert.equal(await statusOf(one.ask("/es/stop")), 405);
      assert.equal(await statusOf(one.ask("/es/status", { method: "POST", body: "{}" })), 405);
      assert.equal(await statusOf(one.ask("/es/status?x")), 404);
      assert.equal(await statusOf(one.ask("/constructor", { method: "POST" })), 404);
      const socket = connect(one.port, "127.0.0.1").on("error", () => undefined);
      socket.write("GET /es/status HTTP/1.1\r\nhost: a\r\n");
      await eventually(
        "a quiet connection ends",
        patienceMs,
        async () => socket.readableEnded || socket.destroyed || undefined,
      );
      assert.equal((await one.status()).state, "started");
      assert.equal((await one.pod.journal()).length, 1);
    }));

  test("where a certificate is mounted the server speaks TLS, and takes the next one without a restart", async () => {
    const one = await ServedPod.make(shells[0] as RunnerShell);
    const [old, next] = [await createAuthority(), await createAuthority()];
    const mount = async ({ cert, key }: { readonly cert: string; readonly key: string }) => {
      await writeFile(one.pod.path("certificate", "tls.crt"), cert);
      await writeFile(one.pod.path("certificate", "tls.key"), key);
    };
    try {
      await mkdir(one.pod.path("certificate"));
      await mount(await old.issue());
      one.launchServer();
      const asked = (authority: string) => async () =>
        (await one.ask("/es/status", { authority })).status === 200 || undefined;
      await eventually("the first certificate", patienceMs, asked(old.cert));
      await assert.rejects(one.ask("/es/status", { authority: next.cert }));
      await mount(await next.issue());
      await eventually("the second certificate", patienceMs, asked(next.cert));
      await assert.rejects(one.ask("/health"));
    } finally {
      await one.remove();
    }
  });

  test("a wrong setting, folder, token or certificate, or a call that cannot be read, ends the server with code 2 and a message", async () => {
    const one = await ServedPod.make(shells[0] as RunnerShell);
    const refused = async (environment: Readonly<Record<string, string>>, message: RegExp) => {
      const server = one.launchServer(environment);
      const code = await eventually("its end", patienceMs, async () => server.end()?.code ?? undefined);
      const text = readFileSync(one.pod.path("server-log"), "utf8");
      assert.equal(code, 2, text);
      assert.match(text, message);
      await rm(one.pod.path("server-log"));
    };
    try {
      await refused(
        { POD_UID: "", SLUICE_DRAIN_SECONDS: "5s" },
        /POD_UID is not set: .+\nSLUICE_DRAIN_SECONDS is "5s": /,
      );
      await refused(
        { POD_IP: "10.0.0", SLUICE_PORT: "0", SLUICE_FILES: "files" },
        /POD_IP.+\nSLUICE_PORT.+\nSLUICE_FILES/,
      );
      await refused({ SLUICE_STATE: "/nowhere", SLUICE_TOKEN_FILE: "/nowhere" }, /emptyDir there.+\n.+key token/);
      await refused(
        { SLUICE_CERTIFICATE: one.pod.path("token") },
        /tls\.crt.+: mount a Secret with tls\.crt and tls\.key/,
      );
      await refused({ POD_IP: "192.0.2.1" }, /cannot listen on 192\.0\.2\.1/);
      await writeFile(one.pod.path("state", "call"), "{");
      await refused({}, /call is no call of this server/);
    } finally {
      await one.remove();
    }
  });
});
