/** The loop of one watch: what it does if the watch ends, breaks or is too old, or if there is nothing to watch. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { reflect } from "../../../../functions/shared/cache/reflector.ts";
import { newProgress } from "../../../../functions/shared/cache/watch-progress.ts";
import {
  type Cluster,
  ClusterError,
  type Metadata,
  type Resource,
  type WatchEvent,
} from "../../../../functions/shared/kubernetes/cluster.ts";

type Event = WatchEvent<{ readonly metadata: Metadata }>;
/** The events of one watch before it ends or breaks. A number is a silence in milliseconds. */
type Watch = readonly (Event | ClusterError | number)[];

const metadata = (resourceVersion: string): Metadata => ({ name: "one", uid: "u", resourceVersion });
const event = (resourceVersion: string): Event => ({
  type: "MODIFIED",
  object: { metadata: metadata(resourceVersion) },
});
const failure = (code: number) =>
  new ClusterError({ code, reason: "", message: `${code}`, verb: "watch", resource: "pods" });

interface Circumstances {
  readonly resource?: Resource;
  readonly optional?: boolean;
  /** Time that the answer to a list takes. */
  readonly listMs?: number;
  /** The pause in which the caller asks for a list. */
  readonly relistIn?: string;
}

/** Reflects the given lists and watches, one after the other, and ends after the last. A list is its revision, or its error. */
async function run(
  {
    lists = ["5"],
    watches = [],
  }: { readonly lists?: readonly (string | ClusterError)[]; readonly watches?: readonly Watch[] },
  { resource = "pods", optional = false, listMs = 0, relistIn = "" }: Circumstances = {},
) {
  const calls: string[] = [];
  let nowMs = 0;
  const stopping = new AbortController();
  const progress = newProgress(0);
  const [nextList, nextWatch] = [lists[Symbol.iterator](), watches[Symbol.iterator]()];
  const end = (): never => {
    stopping.abort();
    throw failure(0);
  };
  const cluster = {
    async list() {
      const { done, value } = nextList.next();
      if (done) return end();
      calls.push("list");
      nowMs += listMs;
      if (value instanceof ClusterError) throw value;
      return { items: [{ metadata: metadata(value) }], resourceVersion: value };
    },
    async *watch(_: Resource, { resourceVersion }: { readonly resourceVersion: string }) {
      const { done, value } = nextWatch.next();
      if (done) return end();
      calls.push(`watch ${resourceVersion}`);
      for (const change of value) {
        if (typeof change === "number") {
          nowMs += change;
          continue;
        }
        if (change instanceof ClusterError) throw change;
        yield change;
        if (progress.relist.signal.aborted) throw failure(0);
      }
    },
    monotonicMs: () => nowMs,
    async sleep(ms: number) {
      nowMs += ms;
      calls.push(`sleep ${ms}`);
      if (calls.at(-1) === relistIn) progress.relist.abort();
    },
  } as unknown as Cluster;
  const store = {
    replace: (_: readonly object[], resourceVersion: string) => void calls.push(`replace ${resourceVersion}`),
    apply(event: Event) {
      if (event.type !== "BOOKMARK" && event.object.metadata.resourceVersion === "relist") progress.relist.abort();
      calls.push(`apply ${event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion}`);
    },
  };
  const onTrouble = (of: Resource, error: unknown) =>
    void calls.push(`trouble ${of} ${(error as ClusterError).code ?? (error as Error).message}`);
  const listed = () => void calls.push("listed");
  const following = { resource, query: {}, store, optional, progress };
  await reflect({ cluster, onTrouble }, following, stopping.signal, listed);
  return calls;
}

const begun = ["list", "replace 5", "listed"];

test("the reflector lists once, and goes on from the last received revision when the server ends the watch", async () => {
  const bookmark: Event = { type: "BOOKMARK", resourceVersion: "9" };
  const minutes = 250_000;
  const calls = await run({ watches: [[], [event("6"), minutes, event("7")], [minutes, bookmark], [minutes]] });
  const expected = ["watch 5", "watch 5", "apply 6", "apply 7", "watch 7", "apply 9", "watch 9"];
  assert.deepEqual(calls, [...begun, ...expected]);
});

test("if its revision is too old, it lists again, without an error", async () => {
  const calls = await run({ lists: ["5", "20"], watches: [[event("6"), failure(410)], []] });
  assert.deepEqual(calls, [...begun, "watch 5", "apply 6", "list", "replace 20", "listed", "watch 20"]);
});

const sleepsOf = (calls: readonly string[]) => calls.filter((call) => call.startsWith("sleep"));
const growing = [100, 300, 700, 1_500, 3_100, 6_300, 10_000, 10_000].map((ms) => `sleep ${ms}`);

test("after a first revision that is too old it lists at once; further ones wait, up to 10 s, and are reported", async () => {
  const tooOld = [failure(410)];
  const watches: Watch[] = [...Array.from({ length: 9 }, () => tooOld), [event("6"), failure(410)]];
  const calls = await run({ lists: Array.from({ length: 11 }, () => "5"), watches: [...watches, []] });
  assert.deepEqual(sleepsOf(calls), [...growing, "sleep 10000"]);
  assert.equal(calls.filter((call) => call === "trouble pods 410").length, 9);
  assert.deepEqual(calls.slice(0, 8), [...begun, "watch 5", "list", "replace 5", "listed", "watch 5"]);
});

test("it waits in the same way if the list itself is answered 410", async () => {
  const calls = await run({ lists: [failure(410), failure(410), failure(410), "5"], watches: [[]] });
  assert.deepEqual(sleepsOf(calls), ["sleep 100", "sleep 300"]);
});

test("it lists again without a pause if the last list served for ten seconds", async () => {
  const watches = [[failure(410)], [failure(410)], [10_000, failure(410)], [failure(410)], []];
  const calls = await run({ lists: ["5", "5", "5", "5", "5"], watches });
  assert.deepEqual(sleepsOf(calls), ["sleep 100", "sleep 100"]);
  const sooner = await run({ lists: ["5", "5", "5"], watches: [[failure(410)], [9_999, failure(410)], []] });
  assert.deepEqual(sleepsOf(sooner), ["sleep 100"]);
  const slow = await run({ lists: ["5", "5", "5"], watches: [[failure(410)], [failure(410)], []] }, { listMs: 60_000 });
  assert.deepEqual(sleepsOf(slow), ["sleep 100"], "it serves from the moment of its answer");
});

test("it waits longer and longer, up to 10 s, and reports it, if a watch ends at once without an event", async () => {
  const calls = await run({ watches: [...Array.from({ length: 9 }, () => []), [1_000], [], []] });
  assert.deepEqual(sleepsOf(calls), [...growing, "sleep 100", "sleep 300"]);
  assert.equal(calls.filter((call) => call === "list").length, 1);
  const trouble = "trouble pods the server ends it as soon as it has begun";
  assert.equal(calls.filter((call) => call === trouble).length, 10);
  assert.deepEqual(sleepsOf(await run({ watches: [[999], [999], []] })), ["sleep 100", "sleep 300"]);
});

test("it waits 100 ms if a watch ends at once after an event, however often", async () => {
  const calls = await run({ watches: [...Array.from({ length: 5 }, () => [event("6")])] });
  assert.deepEqual(
    sleepsOf(calls),
    Array.from({ length: 4 }, () => "sleep 100"),
  );
});

test("it resumes a broken watch where it was, after longer waits up to 10 s, and at once again after an event", async () => {
  const broken = [failure(500)];
  const calls = await run({ watches: [...Array.from({ length: 8 }, () => broken), [event("6"), failure(500)], []] });
  const sleeps = calls.filter((call) => call.startsWith("sleep"));
  const backoffs = [100, 300, 700, 1_500, 3_100, 6_300, 10_000, 10_000, 100].map((ms) => `sleep ${ms}`);
  assert.deepEqual(sleeps, backoffs);
  assert.equal(calls.filter((call) => call === "trouble pods 500").length, 9);
  assert.equal(calls.filter((call) => call === "list").length, 1);
  assert.equal(calls.at(-1), "watch 6");
});

test("a failed list is reported as an error, and readers do not count the type as listed until one succeeds", async () => {
  const calls = await run({ lists: [failure(403), failure(0), "5"], watches: [[]] });
  const troubles = ["list", "trouble pods 403", "sleep 100", "list", "trouble pods 0", "sleep 300"];
  assert.deepEqual(calls, [...troubles, ...begun, "watch 5"]);
});

test("a type without its CRD is empty, is no error, and is tried again every 20 s", async () => {
  const resource = "zoneawarepoddisruptionbudgets";
  const calls = await run({ lists: [failure(404), failure(404), "5"], watches: [[]] }, { resource, optional: true });
  const missing = ["list", "replace 0", "listed", "sleep 20000"];
  assert.deepEqual(calls, [...missing, ...missing, ...begun, "watch 5"]);
  const lost = await run({ lists: ["5", "8"], watches: [[failure(404)], []] }, { resource, optional: true });
  assert.deepEqual(lost, [
    ...begun,
    "watch 5",
    "replace 0",
    "listed",
    "sleep 20000",
    "list",
    "replace 8",
    "listed",
    "watch 8",
  ]);
});

test("any other error of an optional type is reported like that of a required type", async () => {
  const calls = await run({ lists: [failure(500), "5"], watches: [[]] }, { optional: true });
  assert.deepEqual(calls, ["list", "trouble pods 500", "sleep 100", ...begun, "watch 5"]);
});

test("a required type that is missing is reported as an error", async () => {
  const calls = await run({ lists: [failure(404), "5"], watches: [[]] });
  assert.deepEqual(calls, ["list", "trouble pods 404", "sleep 100", ...begun, "watch 5"]);
});

test("it lists again when the memory is found to be wrong", async () => {
  const watches = [[event("relist")], [], []];
  const pods = await run({ lists: ["5", "8"], watches });
  const ended = ["trouble pods the server ends it as soon as it has begun", "sleep 100"];
  const anew = ["list", "replace 8", "listed", "watch 8"];
  assert.deepEqual(pods, [...begun, "watch 5", "apply relist", ...anew, "watch 8", ...ended], "and only once");
  const paused = await run({ lists: ["5", "8"], watches: [[failure(500)], []] }, { relistIn: "sleep 100" });
  assert.deepEqual(paused, [...begun, "watch 5", "trouble pods 500", "sleep 100", ...anew], "also during a pause");
});

test("after its end it sends no request, and its end is no error", async () => {
  const calls = await run({ watches: [] });
  assert.deepEqual(calls, begun);
});
