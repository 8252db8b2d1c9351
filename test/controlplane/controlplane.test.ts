import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Api, eventually } from "./api.ts";
import { type AuditEntry, auditPosition, readAudit, summariseAudit } from "./audit.ts";
import { type ControlPlane, connectTo, findAssets, startControlPlane } from "./controlplane.ts";
import {
  changeTemplate,
  createGroup,
  deleteGroup,
  type FixtureGroup,
  groupPods,
  waitForGroupReady,
} from "./fixtures.ts";
import { ANNOTATIONS } from "./kubelet.ts";
import { isReady, type Pod } from "./podstatus.ts";
import { isFree, releasePorts, reservePort } from "./ports.ts";
import { type End, type Leash, launch } from "./processes.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const assets = await findAssets();

/** Whether the suites that need a control plane are skipped. In CI they fail instead. */
function skipWithout(found: string | undefined): boolean {
  if (found !== undefined) return false;
  const how = "run `npm run controlplane -- --print-assets` (once, about 5 minutes), or set KUBEBUILDER_ASSETS";
  if (process.env.CI === "true") throw new Error(`there is no control plane to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs a real control plane. To get it, ${how}.\n`);
  return true;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function allGone(pids: readonly number[]): Promise<void> {
  await eventually(`processes ${pids} gone`, 10_000, async () => (pids.some(isRunning) ? undefined : true));
}

function readPod(api: Api, name: string): Promise<Pod> {
  return api.get<Pod>(`/api/v1/namespaces/default/pods/${name}`);
}

/** Starts `npm run controlplane` without npm, and resolves when it says that it is ready. */
async function startMain(
  directory: string,
): Promise<{ pid: number; children: number[]; ended: Promise<number | null> }> {
  const child = spawn(process.execPath, [MAIN, "--dir", directory], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
  });
  await eventually("the control plane ready", 60_000, async () =>
    printed.includes("Ctrl-C ends it") ? true : undefined,
  );
  assert.match(printed, new RegExp(`export KUBECONFIG=${join(directory, "kubeconfig")}\n`));
  const pid = child.pid ?? 0;
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ").map(Number);
  return { pid, children, ended };
}

describe("a control plane in this process", { skip: skipWithout(assets) }, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane({ podsReadyAfterMs: 50 });
    api = await Api.open(controlPlane, { userAgent: "controlplane-test/1" });
  });

  after(async () => {
    await api?.close();
    if (!controlPlane) return;
    const pids = Object.values(controlPlane.pids());
    assert.equal(pids.length, 3);
    await controlPlane.stop();
    await allGone(pids);
    const { port } = new URL(controlPlane.url);
    assert.equal(await reservePort(Number(port)), true, "its port is released");
    releasePorts(Number(port));
    await assert.rejects(access(controlPlane.directory), "the temporary folder is removed");
  });

  async function group(
    name: string,
    options: { image?: string; podAnnotations?: Record<string, string> } = {},
  ): Promise<FixtureGroup> {
    return createGroup(controlPlane, { name, zones: 1, ...options });
  }

  test("pods of a StatefulSet become ready, and a deleted one comes back of the new template", async () => {
    const created = await group("replaced");
    await waitForGroupReady(controlPlane, created);
    const outdated = await readPod(api, "replaced-zone-a-1");
    await changeTemplate(controlPlane, created, "app:2");
    await api.delete("/api/v1/namespaces/default/pods/replaced-zone-a-1");
    const pod = await eventually("the pod replaced", 10_000, async () => {
      const found = await readPod(api, "replaced-zone-a-1");
      return found.metadata.uid !== outdated.metadata.uid && isReady(found) ? found : undefined;
    });
    assert.equal(pod.spec.containers[0]?.image, "app:2");
    assert.equal(
      (await readPod(api, "replaced-zone-a-0")).spec.containers[0]?.image,
      "app:1",
      "OnDelete touches no other",
    );
    await deleteGroup(controlPlane, created);
  });

  test("a broken image never becomes ready and reports the reason, and a healed one is ready", async () => {
    const podAnnotations = { [ANNOTATIONS.waitingReason]: "ImagePullBackOff" };
    const created = await group("broken", { image: "app:broken", podAnnotations });
    const waiting = await eventually("a waiting container", 10_000, async () => {
      const pod = (await groupPods(controlPlane, created))[0] as unknown as {
        status: { phase: string; containerStatuses?: { state: { waiting?: { reason: string } } }[] };
      };
      const reason = pod?.status.containerStatuses?.[0]?.state.waiting?.reason;
      return reason === undefined ? undefined : { reason, phase: pod.status.phase };
    });
    assert.deepEqual(waiting, { reason: "ImagePullBackOff", phase: "Pending" });
    await eventually("three pods", 10_000, async () =>
      (await groupPods(controlPlane, created)).length === 3 ? true : undefined,
    );
    for (const ordinal of [0, 1, 2]) await controlPlane.kubelet.healPod("default", `broken-zone-a-${ordinal}`);
    await waitForGroupReady(controlPlane, created);
    await controlPlane.kubelet.breakPod("default", "broken-zone-a-2");
    assert.equal(isReady(await readPod(api, "broken-zone-a-2")), false);
    await deleteGroup(controlPlane, created);
  });

  test("annotations on a pod set its times, and a finalizer keeps it", async () => {
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "600", [ANNOTATIONS.goneAfterMs]: "600" };
    const created = await group("timed", { podAnnotations });
    const path = "/api/v1/namespaces/default/pods/timed-zone-a-0";
    await eventually("the pod", 10_000, () => api.get(path));
    const startedAt = Date.now();
    await waitForGroupReady(controlPlane, created);
    assert.ok(Date.now() - startedAt > 300, "ready after the time of the annotation");
    await api.patch(path, { metadata: { finalizers: ["test.sluice.dev/keep"] } });
    const deletedAt = Date.now();
    await api.delete(path);
    const kept = await eventually("a deletion without grace", 10_000, async () => {
      const pod = await readPod(api, "timed-zone-a-0");
      return pod.metadata.deletionGracePeriodSeconds === 0 ? pod : undefined;
    });
    assert.ok(Date.now() - deletedAt > 550, "gone after the time of the annotation");
    await api.patch(path, { metadata: { uid: kept.metadata.uid, finalizers: null } });
    await eventually("another pod", 10_000, async () =>
      (await readPod(api, "timed-zone-a-0")).metadata.uid === kept.metadata.uid ? undefined : true,
    );
    await deleteGroup(controlPlane, created);
  });

  test("the kubelet goes on after a restart of the API server", async () => {
    const created = await group("restarted", { podAnnotations: { [ANNOTATIONS.readyAfterMs]: "400" } });
    await eventually("three pods", 10_000, async () =>
      (await groupPods(controlPlane, created)).length === 3 ? true : undefined,
    );
    const { "kube-apiserver": first } = controlPlane.pids();
    await controlPlane.restartApiServer({ downMs: 500 });
    assert.notEqual(controlPlane.pids()["kube-apiserver"], first);
    await waitForGroupReady(controlPlane, created);
    await deleteGroup(controlPlane, created);
  });

  test("the port of the API server stays reserved while it is away", async () => {
    const port = Number(new URL(controlPlane.url).port);
    await controlPlane.stopApiServer();
    assert.equal(await isFree(port), true);
    assert.equal(await reservePort(port), false);
    await controlPlane.startApiServer();
  });

  test("the audit log has a line for each request, watches apart", async () => {
    const from = await auditPosition(controlPlane.auditLog);
    await api.get("/api/v1/nodes/node-1");
    await api.get("/api/v1/nodes/node-1");
    const watch = await api.send("GET", "/api/v1/nodes?watch=true&timeoutSeconds=1");
    await watch.body.dump();
    const summary = await eventually("the requests logged", 10_000, async () => {
      const found = await summariseAudit(controlPlane.auditLog, ["controlplane-test"], { from });
      return found.clients["controlplane-test"]?.watches === 1 ? found : undefined;
    });
    assert.deepEqual(summary.clients["controlplane-test"], { requests: 2, watches: 1 });
    const own = summary.requests.filter(({ client }) => client === "controlplane-test");
    assert.deepEqual(own, [{ client: "controlplane-test", verb: "get", resource: "nodes", requests: 2 }]);
    assert.equal(summary.unreadable, 0);
    const entries: AuditEntry[] = [];
    for await (const entry of readAudit(controlPlane.auditLog, { from })) entries.push(entry);
    assert.ok(entries.some(({ userAgent, name }) => userAgent === "controlplane-test/1" && name === "node-1"));
  });

  test("kubectl works with the kubeconfig", async () => {
    const env = { ...process.env, KUBECONFIG: controlPlane.kubeconfig };
    const child = launch(controlPlane.kubectl, ["get", "nodes", "-o", "name"], { env, output: "pipe" });
    await child.ended;
    assert.deepEqual(child.printed(), { stdout: "node/node-1\n", stderr: "" });
  });
});

describe("npm run controlplane", { skip: assets === undefined, concurrency: false }, () => {
  let directory: string;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "sluice-controlplane-test-"));
  });

  after(() => rm(directory, { recursive: true, force: true }));

  test("Ctrl-C ends every process; the same folder goes on with its data", async () => {
    const first = await startMain(directory);
    const access = await connectTo(directory);
    const api = await Api.open(access, { userAgent: "controlplane-test" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "kept" } });
    await api.close();
    const twice = spawnSync(process.execPath, [MAIN, "--dir", directory], { encoding: "utf8" });
    assert.equal(twice.status, 1);
    assert.match(twice.stderr, new RegExp(`in use by process ${first.pid}`));
    process.kill(first.pid, "SIGINT");
    assert.equal(await first.ended, 0);
    assert.equal(first.children.length, 3);
    await allGone(first.children);

    const second = await startMain(directory);
    const again = await Api.open(await connectTo(directory), { userAgent: "controlplane-test" });
    await again.get("/api/v1/namespaces/kept");
    await again.close();
    process.kill(second.pid, "SIGKILL");
    await second.ended;
    await allGone(second.children);
  });

  test("a child that dies ends all, with exit code 1", async () => {
    const { children, ended } = await startMain(directory);
    process.kill(children[0] ?? 0, "SIGKILL");
    assert.equal(await ended, 1);
    await allGone(children);
  });
});

describe("the command line", () => {
  const run = (...args: string[]) => spawnSync(process.execPath, [MAIN, ...args], { encoding: "utf8" });

  test("each wrong flag or value is a line, and the exit code is 2", () => {
    const { status, stderr } = run("--prot", "1", "--port", "99999", "--nodes=x", "--dir");
    const lines = stderr.trim().split("\n");
    assert.equal(status, 2);
    assert.deepEqual(lines.map((line) => line.split(/[ :]/, 1)[0]).sort(), [
      "--dir",
      "--nodes",
      "--port",
      "--prot",
      "1",
    ]);
  });

  test("--help lists the flags", () => {
    const { status, stdout } = run("--help");
    assert.equal(status, 0);
    for (const flag of ["--dir", "--port", "--pods-ready-after", "--print-assets"]) assert.ok(stdout.includes(flag));
  });

  test("a port in use is reported", { skip: assets === undefined }, async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    await assert.rejects(startControlPlane({ port }), new RegExp(`port ${port} of 127.0.0.1 is in use`));
    server.close();
  });
});

for (const leash of ["setpriv", "sh"] satisfies Leash[]) {
  test(`a process on a ${leash} leash ends with its parent, and by signal`, {
    skip: process.platform !== "linux",
  }, async () => {
    const source = `
      const { launch } = await import(${JSON.stringify(join(import.meta.dirname, "processes.ts"))});
      const child = launch("sh", ["-c", "echo $$; exec sleep 3456"], { output: "pipe", leash: "${leash}" });
      setTimeout(() => console.log(child.printed().stdout), 300);`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", source], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [printed] = (await parent.stdout.take(1).toArray()) as Buffer[];
    const pid = Number(printed?.toString());
    assert.ok(isRunning(pid));
    parent.kill("SIGKILL");
    await allGone([pid]);

    const stopped = launch("sleep", ["3456"], { output: "pipe", leash });
    const end = await stopped.stop(5_000);
    assert.ok(end.signal === "SIGTERM" || end.code === 143, end.summary);
    const failed = await launch("sh", ["-c", "echo out; echo err >&2; exit 3"], { output: "pipe", leash }).ended;
    assert.equal(failed.code, 3);
    assert.ok((await launch("no-such-command", [], { output: "pipe", leash }).ended).error);
  });

  test(`a signal that comes while a ${leash} leash is being set up is not lost`, {
    skip: process.platform !== "linux",
  }, async () => {
    const ends: Promise<End>[] = [];
    for (let afterMs = 0; afterMs < 6; afterMs += 0.05) {
      const started = launch("sleep", ["3456"], { output: "pipe", leash });
      const signalAt = performance.now() + afterMs;
      // A timer would be too coarse: the moments in which a shell forks are some ten microseconds long.
      while (performance.now() < signalAt);
      ends.push(started.stop(2_000));
      if (ends.length % 20 === 0) await setTimeout(20);
    }
    for (const end of await Promise.all(ends)) assert.ok(end.signal === "SIGTERM" || end.code === 143, end.summary);
  });
}
