/** The ingesters of the suites must behave as real ones do, because otherwise the suites would show nothing. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { connectPods } from "../../functions/shared/http/connections.ts";
import { Ingesters, type IngestersOptions } from "../support/ingester.ts";
import { clock, rejection } from "../support/played-pods.ts";

const path = "/ingester/prepare-instance-ring-downscale";
const pod = { namespace: "mimir", name: "ingester-zone-a-0", service: "ingester", uid: "one" };

interface Played {
  readonly pods: Ingesters;
  send(method: "GET" | "POST" | "DELETE", at?: string): Promise<{ status: number; body: string }>;
}

async function withIngesters(options: IngestersOptions, run: (played: Played) => Promise<void>): Promise<void> {
  const pods = await Ingesters.open(options);
  const http = connectPods({ clock, userAgent: "sluice/0.0.0 (ingester)", lookup: pods.lookup });
  const address = { scheme: "http", pod: pod.name, service: pod.service, namespace: pod.namespace, port: pods.port };
  try {
    await pods.start(pod);
    await run({ pods, send: (method, at = path) => http.send(address as never, { method, path: at }) });
  } finally {
    await http.close();
    await pods.close();
  }
}

test("an ingester keeps the time at which it was prepared until it is told to stay, also over restarts", async () => {
  await withIngesters({}, async ({ pods, send }) => {
    const before = Math.floor(Date.now() / 1000);
    const { timestamp } = JSON.parse((await send("POST")).body);
    assert.ok(timestamp >= before && timestamp <= before + 5);
    pods.prepare(pod.name, timestamp - 100);
    await pods.restart(pod.name);
    assert.deepEqual(JSON.parse((await send("POST")).body), { timestamp: timestamp - 100 });
    assert.deepEqual(JSON.parse((await send("GET")).body), { timestamp: timestamp - 100 });
    assert.deepEqual(pods.preparedPods(), [pod.name]);
    assert.deepEqual(JSON.parse((await send("DELETE")).body), { timestamp: 0 });
    assert.deepEqual(pods.preparedPods(), []);
    const calls = pods.calls.map(({ method, status, isPrepared }) => [method, status, isPrepared]);
    assert.deepEqual(calls, [
      ["POST", 200, true],
      ["POST", 200, true],
      ["GET", 200, true],
      ["DELETE", 200, false],
    ]);
    assert.equal(pods.calls[0]?.headers["x-cluster"], "mimir");
  });
});

test("another pod of the name was not told anything, unless it has the previous pod's disk", async () => {
  for (const keepsDisks of [false, true]) {
    await withIngesters({ keepsDisks }, async ({ pods, send }) => {
      await send("POST");
      await pods.start({ ...pod, uid: "two" });
      assert.deepEqual(pods.preparedPods(), keepsDisks ? [pod.name] : []);
      await pods.stop(pod);
      assert.equal((await send("GET")).status, 200, "the new pod has not been stopped");
    });
  }
});

test("an ingester answers as it is told to, and is not found once it has been stopped", async () => {
  await withIngesters({}, async ({ pods, send }) => {
    assert.equal((await send("POST", "/ingester/prepare-shutdown")).status, 204);
    assert.equal((await send("GET", "/ingester/prepare-shutdown")).body, "set");
    assert.equal((await send("DELETE", "/ingester/prepare-shutdown")).status, 204);
    assert.equal((await send("POST", "/elsewhere")).status, 404);
    pods.behave(pod.name, "refuse");
    assert.equal((await send("POST")).status, 409);
    pods.behave(pod.name, "rubbish");
    assert.equal((await send("POST")).body, "<html>");
    pods.behave(pod.name, { status: 503 });
    assert.equal((await send("POST")).status, 503);
    pods.behave(pod.name, { slowMs: 20 });
    assert.equal((await send("DELETE")).status, 200);
    pods.behave(pod.name, "crash");
    assert.equal((await rejection(send("POST"))).failed, "connection");
    pods.behave(pod.name, "huge");
    assert.equal((await rejection(send("POST"))).failed, "size");
    assert.equal(pods.preparedSince(pod.name), undefined);
    await pods.stop(pod);
    assert.equal((await rejection(send("POST"))).failed, "connection");
  });
});

test("a process with its options reaches an ingester by its name", async () => {
  await withIngesters({}, async ({ pods }) => {
    const url = `http://${pod.name}.ingester.mimir.svc.cluster.local.:${pods.port}${path}`;
    const program = `console.log(await (await fetch("${url}")).text())`;
    const env = { PATH: process.env.PATH, NODE_OPTIONS: pods.nodeOptions };
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program], { env });
    assert.equal(stdout.trim(), '{"timestamp":0}');
  });
});

test("a pod that is reported after all of them have ended is not started, because nothing would end it", async () => {
  const pods = await Ingesters.open();
  await pods.close();
  await pods.start(pod);
  assert.deepEqual(pods.lives, []);
});
