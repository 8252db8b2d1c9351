import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode, type WatchEvent } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject } from "./objects.ts";
import { seededRandom } from "./random.ts";
import { Store } from "./store.ts";
import { VirtualTimeline } from "./timeline.ts";

const namespace = "test";

function makeStore(watchHistory = 100): Store {
  return new Store({ timeline: new VirtualTimeline(), random: seededRandom(1), watchHistory });
}

function label(store: Store, name: string, value: string | null): void {
  store.patch("leases", { namespace, name }, { metadata: { labels: { w: value } } });
}

function describe(event: WatchEvent<StoredObject>): string {
  return event.type === "BOOKMARK" ? event.type : `${event.type} ${event.object.metadata.name}`;
}

test("a watch reports changes in order, each with a larger revision", () => {
  const store = makeStore();
  const received: WatchEvent<StoredObject>[] = [];
  store.watch("leases", { namespace, resourceVersion: String(store.revision) }, (event) => received.push(event));
  store.create("leases", namespace, { metadata: { name: "a" } });
  store.create("leases", "elsewhere", { metadata: { name: "z" } });
  label(store, "a", "1");
  store.delete("leases", { namespace, name: "a" });
  assert.deepEqual(received.map(describe), ["ADDED a", "MODIFIED a", "DELETED a"]);
  const revisions = received.map((event) =>
    Number(event.type === "BOOKMARK" ? 0 : event.object.metadata.resourceVersion),
  );
  assert.deepEqual(
    revisions,
    revisions.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(revisions).size, 3);
});

test("an object that starts to match is ADDED, one that stops is DELETED as it last was", () => {
  const store = makeStore();
  const received: WatchEvent<StoredObject>[] = [];
  store.watch("leases", { labelSelector: "w=1", resourceVersion: String(store.revision) }, (event) =>
    received.push(event),
  );
  store.create("leases", namespace, { metadata: { name: "a" } });
  label(store, "a", "1");
  store.patch("leases", { namespace, name: "a" }, { metadata: { annotations: { x: "1" } } });
  label(store, "a", "2");
  label(store, "a", "1");
  assert.deepEqual(received.map(describe), ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a"]);
  const gone = received[2] as { object: StoredObject };
  assert.deepEqual(gone.object.metadata.labels, { w: "1" });
  assert.equal(Number(gone.object.metadata.resourceVersion), store.revision - 1);
});

test("a watch continues from a past revision without a gap or a repetition", () => {
  const store = makeStore();
  store.create("leases", namespace, { metadata: { name: "a" } });
  const since = String(store.revision);
  store.create("leases", namespace, { metadata: { name: "b" } });
  const received: string[] = [];
  store.watch("leases", { resourceVersion: since }, (event) => received.push(describe(event)));
  store.create("leases", namespace, { metadata: { name: "c" } });
  assert.deepEqual(received, ["ADDED b", "ADDED c"]);
});

test("without a revision a watch begins with everything there is", () => {
  const store = makeStore();
  store.create("leases", namespace, { metadata: { name: "a" } });
  const received: string[] = [];
  store.watch("leases", {}, (event) => received.push(describe(event)));
  label(store, "a", "1");
  assert.deepEqual(received, ["ADDED a", "MODIFIED a"]);
});

test("a revision whose later changes are forgotten is answered with 410", () => {
  const store = makeStore(5);
  store.create("leases", namespace, { metadata: { name: "a" } });
  for (let index = 0; index < 30; index++) label(store, "a", `before ${index}`);
  const first = store.revision;
  for (let index = 0; index < 6; index++) label(store, "a", String(index));
  const watch = (revision: number) => () => store.watch("leases", { resourceVersion: String(revision) }, () => {});
  assert.throws(watch(first), (error) => hasCode(error, 410) && error.reason === "Expired");
  assert.throws(watch(first), new RegExp(`too old resource version: ${first} \\(${first + 1}\\)`));
  watch(first + 1)();
});

test("bookmarks go to the watches that asked for them", () => {
  const store = makeStore();
  const received: string[] = [];
  const from = { resourceVersion: String(store.revision) };
  store.watch("leases", { ...from, bookmarks: true }, (event) => {
    if (event.type === "BOOKMARK") received.push(event.resourceVersion);
  });
  store.watch("leases", from, (event) => received.push(describe(event)));
  store.create("events", namespace, { metadata: { name: "e" } });
  store.sendBookmarks("leases");
  assert.deepEqual(received, [String(store.revision)]);
});

test("a cancelled watch receives nothing more", () => {
  const store = makeStore();
  const received: string[] = [];
  const cancel = store.watch("leases", {}, (event) => received.push(describe(event)));
  cancel();
  store.create("leases", namespace, { metadata: { name: "a" } });
  assert.deepEqual(received, []);
});

test("every listener gets a listener's write after the change that caused it", () => {
  const store = makeStore();
  const received: string[] = [];
  store.onChange("leases", ({ current }) => {
    if (current !== undefined && current.metadata.labels === undefined) label(store, current.metadata.name, "1");
  });
  store.watch("leases", {}, (event) => received.push(describe(event)));
  store.create("leases", namespace, { metadata: { name: "a" } });
  assert.deepEqual(received, ["ADDED a", "MODIFIED a"]);
});
