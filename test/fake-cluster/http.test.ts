import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type ServedWorld, serveWorld } from "./http.ts";
import type { WatchedEvent } from "./http-watch.ts";
import { RealTimeline } from "./timeline.ts";
import { createWorld, type World } from "./world.ts";

const leases = "/apis/coordination.k8s.io/v1/namespaces/test/leases";
const mergePatch = "application/merge-patch+json";

let timeline: RealTimeline;
let world: World;
let served: ServedWorld;
let drops: (event: WatchedEvent) => boolean;

interface Answer {
  readonly code: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are compared, not used.
  readonly body: any;
}

async function ask(method: string, path: string, body?: unknown, type = "application/json"): Promise<Answer> {
  const headers = { "User-Agent": "test", ...(body === undefined ? undefined : { "Content-Type": type }) };
  const text = body === undefined ? undefined : JSON.stringify(body);
  const response = await fetch(served.url + path, {
    method,
    headers,
    ...(text === undefined ? undefined : { body: text }),
  });
  return { code: response.status, headers: response.headers, body: await response.json() };
}

/** Reads a watch until it has delivered `count` events or ends. */
async function watch(path: string, count: number, during: () => void = () => {}): Promise<Answer["body"][]> {
  const controller = new AbortController();
  const response = await fetch(served.url + path, { signal: controller.signal });
  during();
  const events: Answer["body"][] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() as string;
    events.push(...lines.map((line) => JSON.parse(line)));
    if (events.length >= count) break;
  }
  controller.abort();
  return events;
}

before(async () => {
  timeline = new RealTimeline();
  world = createWorld({ timeline, readyAfterMs: 20, goneAfterMs: 20, watchHistory: 50 });
  served = await serveWorld(world, {
    dropWatchEvent: (event) => drops(event),
  });
  drops = () => false;
});

after(async () => {
  await served.close();
  world.stop();
  timeline.close();
});

test("objects are created, read, patched and deleted as over the real API", async () => {
  const created = await ask("POST", leases, { metadata: { name: "a", labels: { page: "n" } } });
  assert.deepEqual(
    [created.code, created.body.kind, created.body.apiVersion],
    [201, "Lease", "coordination.k8s.io/v1"],
  );
  assert.ok(Math.abs(Date.parse(created.headers.get("date") ?? "") - Date.now()) < 5000);
  const { uid, resourceVersion } = created.body.metadata;
  const patch = { metadata: { uid, resourceVersion, annotations: { x: "1" } } };
  assert.equal((await ask("PATCH", `${leases}/a`, patch, mergePatch)).body.metadata.annotations.x, "1");
  assert.equal((await ask("PATCH", `${leases}/a`, patch, mergePatch)).code, 409);
  assert.equal((await ask("GET", `${leases}/a`)).body.metadata.annotations.x, "1");
  assert.equal((await ask("DELETE", `${leases}/a`, { preconditions: { uid: "other" } })).code, 409);
  const deleted = await ask("DELETE", `${leases}/a`, { preconditions: { uid } });
  assert.deepEqual(deleted.body, {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    details: { name: "a", group: "coordination.k8s.io", kind: "leases", uid },
  });
});

test("a refusal is a Status", async () => {
  assert.deepEqual((await ask("GET", `${leases}/missing`)).body, {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: 'leases.coordination.k8s.io "missing" not found',
    reason: "NotFound",
    details: { name: "missing", group: "coordination.k8s.io", kind: "leases" },
    code: 404,
  });
});

test("only merge patches are taken, and dry runs are refused rather than done", async () => {
  await ask("POST", leases, { metadata: { name: "typed" } });
  assert.equal((await ask("PATCH", `${leases}/typed`, {}, "application/json")).code, 415);
  assert.equal((await ask("DELETE", `${leases}/typed?dryRun=All`)).code, 400);
  assert.equal((await ask("GET", `${leases}/typed`)).code, 200);
  assert.equal((await ask("PUT", `${leases}/typed`, {})).code, 400);
  assert.equal((await ask("PUT", leases, {})).code, 405);
});

test("a list is paged from one state, though objects come and go", async () => {
  for (const name of ["p1", "p2", "p3"]) await ask("POST", leases, { metadata: { name, labels: { page: "y" } } });
  const first = (await ask("GET", `${leases}?labelSelector=page%3Dy&limit=2`)).body;
  assert.deepEqual([first.kind, first.items.length, first.items[0].kind], ["LeaseList", 2, undefined]);
  await ask("POST", leases, { metadata: { name: "p2b", labels: { page: "y" } } });
  await ask("DELETE", `${leases}/p3`);
  const next = `${leases}?labelSelector=page%3Dy&limit=2&continue=${first.metadata.continue}`;
  const second = (await ask("GET", next)).body;
  assert.deepEqual(
    second.items.map(({ metadata }: Answer["body"]) => metadata.name),
    ["p3"],
  );
  assert.deepEqual(
    [second.metadata.continue, second.metadata.resourceVersion],
    [undefined, first.metadata.resourceVersion],
  );
  const all = (await ask("GET", "/apis/coordination.k8s.io/v1/leases?labelSelector=page%3Dy")).body;
  assert.equal(all.items.length, 3);
});

test("a list that must be newer than everything waits three seconds, then answers 504", async () => {
  const wanted = world.store.revision + 1;
  setTimeout(() => world.store.create("events", "test", { metadata: { name: "e" } }), 50);
  const path = `${leases}?resourceVersionMatch=NotOlderThan&resourceVersion=`;
  assert.equal((await ask("GET", path + wanted)).code, 200);
  const { code, body, headers } = await ask("GET", `${path}9999999`);
  assert.deepEqual([code, body.reason, headers.get("retry-after")], [504, "Timeout", "1"]);
  assert.deepEqual(body.details.causes, [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }]);
});

test("a watch reports changes until its time is up, with a bookmark before the end", async () => {
  const path = `${leases}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion=${world.store.revision}`;
  const events = await watch(path, 9, () => {
    world.store.create("leases", "test", { metadata: { name: "w" } });
    world.store.delete("leases", { namespace: "test", name: "w" });
  });
  assert.deepEqual(
    events.map(({ type, object }) => `${type} ${object.kind} ${object.metadata.name ?? ""}`),
    ["ADDED Lease w", "DELETED Lease w", "BOOKMARK Lease "],
  );
  assert.equal(events[2].object.metadata.resourceVersion, String(world.store.revision));
});

test("a watch from a forgotten revision is one ERROR event with a 410 in it", async () => {
  await ask("POST", leases, { metadata: { name: "busy" } });
  for (let index = 0; index < 60; index++) {
    world.store.patch(
      "leases",
      { namespace: "test", name: "busy" },
      { metadata: { annotations: { n: String(index) } } },
    );
  }
  const [event, ...more] = await watch(`${leases}?watch=true&resourceVersion=1`, 9);
  assert.deepEqual([event.type, event.object.code, event.object.reason, more], ["ERROR", 410, "Expired", []]);
});

test("events can be dropped from watches on purpose", async () => {
  drops = ({ object }) => object.metadata.name === "dropped";
  const events = await watch(`${leases}?watch=true&resourceVersion=${world.store.revision}`, 1, () => {
    world.store.create("leases", "test", { metadata: { name: "dropped" } });
    world.store.create("leases", "test", { metadata: { name: "told" } });
  });
  drops = () => false;
  assert.deepEqual(
    events.map(({ object }) => object.metadata.name),
    ["told"],
  );
});

test("requests are counted by verb, resource and user agent", async () => {
  const mine = (): number => served.requests().find((r) => r.verb === "get" && r.userAgent === "test")?.count ?? 0;
  const before = mine();
  await ask("GET", `${leases}/missing`);
  assert.equal(mine(), before + 1);
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "missing" } };
  assert.equal((await ask("POST", "/api/v1/namespaces/test/pods/missing/eviction", eviction)).code, 404);
  const evictions = served.requests().find(({ resource }) => resource === "pods/eviction");
  assert.equal(evictions?.verb, "create");
});

test("health and version are answered, and an unknown path is not found", async () => {
  assert.equal(await (await fetch(`${served.url}/readyz`)).text(), "ok");
  assert.equal((await ask("GET", "/version")).body.minor, "36");
  assert.equal((await fetch(`${served.url}/nope`)).status, 404);
  assert.equal((await ask("GET", "/apis/apps/v1/namespaces/test/widgets")).body.reason, "NotFound");
});
