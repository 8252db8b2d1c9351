import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, groupPods } from "../controlplane/fixtures.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import { launchServer, type Server } from "../support/server.ts";

/** Posts a change as an ApiServerSource in Reference mode does: a CloudEvent in binary mode. Resolves to the status. */
async function postReference(server: Server, type: string, kind: string, namespace: string, name: string) {
  const apiVersion = kind === "StatefulSet" ? "apps/v1" : "v1";
  const answer = await fetch(server.url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "ce-specversion": "1.0",
      "ce-id": crypto.randomUUID(),
      "ce-source": "https://10.0.0.1:443",
      "ce-type": `dev.knative.apiserver.ref.${type}`,
      "ce-subject": `/apis/${apiVersion}/namespaces/${namespace}/${kind.toLowerCase()}s/${name}`,
      "ce-kind": kind,
      "ce-apiversion": apiVersion,
      "ce-namespace": namespace,
      "ce-name": name,
    },
    body: JSON.stringify({ apiVersion, kind, namespace, name }),
  });
  assert.equal(await answer.text(), "");
  return answer.status;
}

const small = { zones: 3, pods: 3, maxUnavailable: 1 };

describe("the shipped server", { skip: await skipWithoutControlPlane(), concurrency: 4 }, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
  });

  after(() => controlPlane?.stop());

  test("rolls to the end by sweeps alone if every event is lost", async () => {
    await play(controlPlane, "sweeps", small, async (scene) => {
      const server = await scene.serve({ VIEWS: "list", SWEEP_INTERVAL: "1s" });
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2", 120_000);
      assert.equal(await server.metric("sluice_events_total", { result: "queued" }), 0);
    });
  });

  test("advances by CloudEvents, and answers them 204", async () => {
    await play(controlPlane, "events", { zones: 1, pods: 4, maxUnavailable: 1 }, async (scene) => {
      const server = await scene.serve({ VIEWS: "list" });
      await server.ready();
      await scene.waitForOldLedger(server);
      const statuses: Promise<number>[] = [];
      scene.observer.listen((kind, type, name) => {
        const verb = { ADDED: "add", MODIFIED: "update", DELETED: "delete" }[type];
        statuses.push(postReference(server, verb, kind, scene.group.namespace, name));
      });
      const startedMs = performance.now();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2", 60_000);
      // Four requeues of seven seconds would also get there.
      assert.ok(performance.now() - startedMs < 15_000, "the events advanced it");
      assert.deepEqual([...new Set(await Promise.all(statuses))], [204]);
      assert.ok((await server.metric("sluice_events_total", { result: "queued" })) > 4);
    });
  });

  test("in shadow mode decides and reports, and writes nothing, not even to the ledger", async () => {
    const { takings } = await play(controlPlane, "shadow", small, async (scene) => {
      const server = await scene.serve({ SLUICE_MODE: "shadow", SWEEP_INTERVAL: "1s" });
      await changeTemplate(controlPlane, scene.group, "app:2");
      await eventually("five decisions to roll", 30_000, async () =>
        (await server.metric("sluice_verdicts_total", { guard: "rolling" })) >= 5 ? true : undefined,
      );
      const line = server.log.find(({ guard }) => guard === "rolling");
      assert.match(String(line?.msg), /rolling shadow-zone-a: 1 of 3 outdated pods go now/);
      assert.equal(line?.shadow, true);
      assert.equal((await server.stop()).code, 0);
      const requests = await eventually("its requests in the audit log", 10_000, async () => {
        const found = await scene.requests();
        return found.length > 0 ? found : undefined;
      });
      const writes = requests.filter(({ verb }) => verb !== "get" && verb !== "list");
      assert.deepEqual(writes, []);
    });
    assert.deepEqual(takings, []);
  });

  test("a malformed rollout-max-unavailable is reported on the StatefulSet, counted, and taken for 1", async () => {
    const options = { zones: 2, pods: 2, maxUnavailable: "lots" };
    const { mostDown } = await play(controlPlane, "malformed", options, async (scene) => {
      const server = await scene.serve();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const event = await scene.waitForEvent("MalformedAnnotation");
      assert.equal(event.type, "Warning");
      assert.equal(event.involvedObject.kind, "StatefulSet");
      assert.match(event.message, /rollout-max-unavailable is "lots"; write an integer above 0.* Until then: 1\./);
      for (const statefulset of scene.group.statefulSets) {
        const labels = { statefulset, annotation: "rollout-max-unavailable" };
        assert.equal(await server.metric("sluice_malformed_annotations_total", labels), 1);
      }
      const about = (await scene.events("MalformedAnnotation")).map(({ involvedObject }) => involvedObject.name);
      assert.deepEqual(about.sort(), scene.group.statefulSets);
    });
    assert.deepEqual(Object.values(mostDown), [1, 1]);
  });

  test("replays a recorded event on a real API server: it prints what would go and why, ends, and writes nothing", async () => {
    const { takings } = await play(controlPlane, "replayed", small, async (scene) => {
      const { namespace, statefulSets } = scene.group;
      const [first = ""] = statefulSets;
      await changeTemplate(controlPlane, scene.group, "app:2");
      const recorded = await readFile(new URL("../fixtures/statefulset-update.json", import.meta.url), "utf8");
      const folder = await mkdtemp(join(tmpdir(), "sluice-replay-"));
      const file = join(folder, "event.json");
      await writeFile(file, recorded.replaceAll('"demo"', `"${namespace}"`).replaceAll("db-zone-a", first));
      const { kubeconfig } = controlPlane;
      const launched = launchServer({ kubeconfig, namespace, args: ["--replay", file] });
      const { code } = await launched.ended;
      await rm(folder, { recursive: true });
      const { stdout, stderr } = launched.printed();
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(
        stdout,
        new RegExp(`^guard {5}rolling\\nsentence {2}rolling ${first}: 1 of 3 outdated pods go now`, "m"),
      );
      assert.match(stdout, new RegExp(`^would do {2}delete ${first}-\\d$`, "m"));
      const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
      assert.deepEqual((await scene.api.get<{ items: object[] }>(leases)).items, []);
    });
    assert.equal(takings.length, 0);
  });

  test("does not start with wrong settings: exit code 2 and a line for each mistake", async () => {
    const settings = { PORT: "http", SLUICE_MODE: "pretend", SWEEP_INTERVAL: "1h", VIEWS: "none" };
    const launched = launchServer({ kubeconfig: controlPlane.kubeconfig, namespace: "Not A Name", settings });
    const { code } = await launched.ended;
    const { stdout, stderr } = launched.printed();
    const lines = stderr.trim().split("\n");
    assert.equal(code, 2, stderr);
    assert.equal(stdout, "");
    assert.equal(lines.length, 5, stderr);
    for (const name of ["NAMESPACE", ...Object.keys(settings)]) {
      assert.equal(lines.filter((line) => line.startsWith(`sluice: ${name} is "`)).length, 1, stderr);
    }
    const nowhere = launchServer({ kubeconfig: "/nowhere/kubeconfig", namespace: "default" });
    assert.equal((await nowhere.ended).code, 2);
    assert.match(nowhere.printed().stderr, /^sluice: the cluster cannot be found: .*\n$/);
  });

  test("ends with code 0 soon after SIGTERM in the middle of a rollout, and another one finishes", async () => {
    await play(controlPlane, "ended", { ...small, maxUnavailable: 2 }, async (scene) => {
      const server = await scene.serve();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForTakings(3);
      const startedMs = performance.now();
      const { summary } = await server.stop();
      const tookMs = performance.now() - startedMs;
      assert.equal(summary, "exit code 0");
      assert.ok(tookMs < 5_000, `it took ${tookMs} ms`);
      const outdated = (await groupPods(controlPlane, scene.group)).filter(
        ({ spec }) => spec.containers[0]?.image === "app:1",
      );
      assert.ok(outdated.length > 0, "it ended in the middle");
      await scene.serve();
      await scene.waitForRollout("app:2");
    });
  });
});
