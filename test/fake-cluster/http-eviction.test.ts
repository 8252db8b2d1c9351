/** Cases of evictions that a test cannot cause on a real API server. The others are in `test/contract`. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type ServedWorld, serveWorld } from "./http.ts";
import { applyJsonPatch } from "./json-patch.ts";
import { RealTimeline } from "./timeline.ts";
import { createWorld, type World } from "./world.ts";

const resource = "mutatingwebhookconfigurations";

let timeline: RealTimeline;
let world: World;
let served: ServedWorld;

before(async () => {
  timeline = new RealTimeline();
  world = createWorld({ timeline, readyAfterMs: 0, goneAfterMs: 0 });
  served = await serveWorld(world);
});

after(async () => {
  await served.close();
  world.stop();
  timeline.close();
});

interface Answer {
  readonly code: number;
  readonly message: string;
  readonly details?: { readonly retryAfterSeconds?: number; readonly causes?: readonly { readonly message: string }[] };
}

async function evict(name: string): Promise<Answer> {
  const response = await fetch(`${served.url}/api/v1/namespaces/test/pods/${name}/eviction`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ metadata: { name } }),
  });
  return (await response.json()) as Answer;
}

/** The refusal of an eviction while one webhook is registered. */
async function refusalBy(webhook: object): Promise<string> {
  world.store.create(resource, "", {
    metadata: { name: "webhook" },
    webhooks: [
      {
        name: "webhook",
        clientConfig: { url: "https://127.0.0.1:1/" },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
        admissionReviewVersions: ["v1"],
        ...webhook,
      },
    ],
  });
  try {
    const { code, message } = await evict("pod");
    assert.equal(code, 500);
    return message.replace("Internal error occurred: ", "");
  } finally {
    world.store.delete(resource, { namespace: "", name: "webhook" });
  }
}

test("a webhook that the fake cluster cannot ask fails, and one with matchConditions is an error", async () => {
  const service = { namespace: "sluice", name: "sluice", path: "/pods/eviction" };
  const asked = `failed calling webhook "webhook": failed to call webhook: Post`;
  assert.equal(
    await refusalBy({ clientConfig: { service } }),
    `${asked} "https://sluice.sluice.svc:443/pods/eviction?timeout=10s": service "sluice" not found`,
  );
  const caBundle = Buffer.from("no certificate").toString("base64");
  assert.equal(
    await refusalBy({ clientConfig: { url: "https://127.0.0.1:1/", caBundle } }),
    `${asked} "https://127.0.0.1:1/?timeout=10s": unable to load root certificates: unable to parse bytes as PEM block`,
  );
  assert.match(await refusalBy({ admissionReviewVersions: ["v1beta1"] }), /the embedded world knows v1 only/);
  const reported = 'the embedded world knows no matchConditions, as webhook "webhook" has';
  assert.equal(await refusalBy({ matchConditions: [{ name: "always", expression: "true" }] }), reported);
});

test("a PodDisruptionBudget whose status is behind makes clients retry in ten seconds, but not for pods that have ended", async () => {
  const labels = { app: "set" };
  const spec = { nodeName: "node-1", containers: [{ name: "app", image: "app:1" }] };
  for (const name of ["running", "ended"]) {
    const pod = world.store.create("pods", "test", { metadata: { name, labels }, spec });
    world.store.putStatus("pods", pod, { phase: name === "running" ? "Running" : "Succeeded" });
  }
  const budget = { metadata: { name: "budget" }, spec: { minAvailable: 1, selector: { matchLabels: labels } } };
  world.store.create("poddisruptionbudgets", "test", budget);
  const { code, details } = await evict("running");
  assert.deepEqual([code, details?.retryAfterSeconds], [429, 10]);
  assert.equal(details?.causes?.[0]?.message, "The disruption budget budget is still being processed by the server.");
  assert.equal((await evict("ended")).code, 201);
});

test("a JSON patch changes a copy, and a path that leads nowhere is an error", () => {
  const document = { a: { "b/c": 1 }, list: [1] };
  assert.deepEqual(applyJsonPatch(document, [{ op: "add", path: "/a/b~1c", value: 2 }]), {
    ...document,
    a: { "b/c": 2 },
  });
  assert.deepEqual(document, { a: { "b/c": 1 }, list: [1] });
  for (const path of ["/x/y", "/a/none", "/list/0", ""]) {
    assert.throws(() => applyJsonPatch(document, [{ op: "replace", path, value: 1 }]), /doc is missing path/);
  }
  assert.throws(() => applyJsonPatch(document, [{ op: "remove", path: "/a" }]), /knows no JSON patch with "remove"/);
});
