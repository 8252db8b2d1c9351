/**
 * Budgets in a cache that a watch feeds: when they are served from memory, when they are listed, and which of two
 * versions is newer.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ObjectStore } from "../../../../functions/shared/cache/object-store.ts";
import type { Metadata } from "../../../../functions/shared/kubernetes/cluster.ts";

interface Thing {
  readonly metadata: Metadata;
  readonly text: string;
}

const thing = (name: string, resourceVersion: number, changes: Partial<Metadata> & { text?: string } = {}): Thing => {
  const { text = `${name}@${resourceVersion}`, ...metadata } = changes;
  const uid = `uid-of-${name}`;
  return { text, metadata: { name, namespace: "db", uid, resourceVersion: `${resourceVersion}`, ...metadata } };
};

/** A store with a clock that the test sets, and a server whose lists are `served`. */
function createTestStore() {
  const state = { nowMs: 0, lists: 0, served: [] as readonly Thing[], seen: [] as string[] };
  const store = new ObjectStore<string, Thing>({
    clock: { monotonicMs: () => state.nowMs },
    parse: ({ text }) => text,
    seen: (text, how) => void state.seen.push(`${how} ${text}`),
  });
  const list = async () => {
    state.lists++;
    return state.served;
  };
  return {
    state,
    list: (things: readonly Thing[], resourceVersion: number) => store.replace(things, `${resourceVersion}`),
    notify: (type: "ADDED" | "MODIFIED" | "DELETED", object: Thing) => store.apply({ type, object }),
    bookmark: (resourceVersion: number) => store.apply({ type: "BOOKMARK", resourceVersion: `${resourceVersion}` }),
    read: (namespace = "db", asked = list) => store.read(namespace, asked),
  };
}

test("what the watch has reported is served without a request for 30 s after its last event", async () => {
  const { state, list, notify, bookmark, read } = createTestStore();
  list([thing("one", 5), thing("two", 4)], 6);
  assert.deepEqual(await read(), ["one@5", "two@4"]);
  notify("ADDED", thing("three", 7));
  notify("MODIFIED", thing("one", 8));
  notify("DELETED", thing("two", 9));
  assert.deepEqual((await read()).toSorted(), ["one@8", "three@7"]);
  state.nowMs = 30_000;
  await read();
  bookmark(10);
  state.nowMs = 60_000;
  assert.deepEqual((await read()).toSorted(), ["one@8", "three@7"]);
  assert.equal(state.lists, 0);
});

test("while a watch is silent, a list is made once every 30 s for each namespace", async () => {
  const { state, list, read } = createTestStore();
  list([thing("old", 5), thing("far", 5, { namespace: "web" })], 6);
  state.nowMs = 30_001;
  state.served = [thing("new", 8)];
  assert.deepEqual(await read(), ["new@8"]);
  assert.deepEqual(await read("db", async () => assert.fail("it was just listed")), ["new@8"]);
  state.served = [thing("far", 9, { namespace: "web" })];
  assert.deepEqual(await read("web"), ["far@9"]);
  assert.deepEqual(await read(), ["new@8"], "a list of another namespace has no budgets of this one");
  assert.equal(state.lists, 2);
  state.nowMs = 60_001;
  await read();
  assert.equal(state.lists, 2);
  state.nowMs = 60_002;
  state.served = [];
  assert.deepEqual(await read(), []);
  assert.equal(state.lists, 3);
});

test("before the watch's first event, and without a watch, budgets are listed", async () => {
  const { state, read } = createTestStore();
  state.served = [thing("one", 5)];
  assert.deepEqual(await read(), ["one@5"]);
  assert.equal(state.lists, 1);
});

test("events of an API server that is behind prove nothing: its watch still counts as silent", async () => {
  const { state, list, notify, bookmark, read } = createTestStore();
  list([thing("one", 8)], 10);
  state.nowMs = 20_000;
  notify("MODIFIED", thing("one", 7));
  bookmark(9);
  state.nowMs = 30_001;
  state.served = [thing("one", 11)];
  assert.deepEqual(await read(), ["one@11"]);
  assert.equal(state.lists, 1);
});

test("a failed list is an error for the reader, and not an empty namespace", async () => {
  const { read } = createTestStore();
  await assert.rejects(
    read("db", async () => {
      throw new Error("the API server is away");
    }),
    /the API server is away/,
  );
});

test("a list during which the watch reports again is dropped, because the watch is newer", async () => {
  const { state, list, notify, read } = createTestStore();
  list([thing("one", 5)], 6);
  state.nowMs = 31_000;
  const overtaken = await read("db", async () => {
    notify("MODIFIED", thing("one", 9));
    notify("ADDED", thing("two", 10));
    return [thing("one", 5)];
  });
  assert.deepEqual(overtaken, ["one@9", "two@10"]);
});

test("late events from before a list neither restore an older budget nor remove a recreated one", async () => {
  const { state, list, notify, read } = createTestStore();
  list([thing("one", 5), thing("two", 5)], 6);
  state.nowMs = 31_000;
  state.served = [thing("one", 9), thing("two", 10, { uid: "made-again" })];
  assert.deepEqual(await read(), ["one@9", "two@10"]);
  notify("MODIFIED", thing("one", 7));
  notify("DELETED", thing("two", 8));
  assert.deepEqual(await read(), ["one@9", "two@10"]);
  notify("DELETED", thing("two", 11, { uid: "made-again" }));
  assert.deepEqual(await read(), ["one@9"]);
});

test("one list serves all callers in a namespace while it is under way, and the next caller after that lists again", async () => {
  const { state, read } = createTestStore();
  const slow = Promise.withResolvers<readonly Thing[]>();
  let lists = 0;
  const list = () => {
    lists++;
    return slow.promise;
  };
  const first = read("db", list);
  state.nowMs = 10;
  const second = read("db", list);
  assert.deepEqual(await read("other", async () => []), []);
  slow.resolve([thing("one", 5)]);
  assert.deepEqual([await first, await second, lists], [["one@5"], ["one@5"], 1]);
  state.nowMs = 40_000;
  assert.deepEqual(await read("db", async () => [thing("one", 5), thing("two", 6)]), ["one@5", "two@6"]);
});

test("every change by the watch is reported as updated, deleted, or ignored if the spec is the same", async () => {
  const { state, list, notify } = createTestStore();
  list([thing("one", 5, { generation: 1, text: "one" })], 6);
  notify("MODIFIED", thing("one", 7, { generation: 1, text: "one, its labels" }));
  notify("MODIFIED", thing("one", 8, { generation: 2, text: "one, its spec" }));
  notify("DELETED", thing("one", 9, { generation: 2 }));
  notify("DELETED", thing("one", 9, { generation: 2 }));
  notify("ADDED", thing("one", 10, { generation: 1, uid: "made-again", text: "one again" }));
  list([thing("one", 10, { generation: 1, uid: "made-again", text: "one again" })], 11);
  list([], 12);
  assert.deepEqual(state.seen, [
    "updated one",
    "ignored one, its labels",
    "updated one, its spec",
    "deleted one, its spec",
    "updated one again",
    "ignored one again",
    "deleted one again",
  ]);
});

test("an object without a generation counts as changed whenever it is reported", async () => {
  const { state, notify } = createTestStore();
  notify("ADDED", thing("one", 5));
  notify("MODIFIED", thing("one", 6));
  assert.deepEqual(state.seen, ["updated one@5", "updated one@6"]);
});

test("a watch that reports again after a list counts from then on; a late event does not change what was listed", async () => {
  const { state, list, notify, bookmark, read } = createTestStore();
  list([thing("one", 5)], 9);
  state.nowMs = 31_000;
  state.served = [thing("one", 7), thing("two", 8)];
  const late = async () => {
    notify("MODIFIED", thing("one", 6));
    return state.served;
  };
  assert.deepEqual(await read("db", late), ["one@7", "two@8"], "the event is from before the list");
  state.nowMs = 40_000;
  bookmark(10);
  state.nowMs = 70_000;
  assert.deepEqual(await read(), ["one@7", "two@8"]);
  assert.equal(state.lists, 0);
});

test("the lists of at most 10,000 namespaces are remembered", async () => {
  const { state, read } = createTestStore();
  for (let number = 0; number < 10_001; number++) await read(`${number}`);
  assert.equal(state.lists, 10_001);
  await read("1");
  assert.equal(state.lists, 10_001);
  await read("0");
  assert.equal(state.lists, 10_002);
});
