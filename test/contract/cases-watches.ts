/** Watches: every change after a revision, in order and once; and how watches end. */

import assert from "node:assert/strict";
import type { ObjectTypes, Resource, WatchEvent, WatchQuery } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import { type Case, createLease, createPod, type Fixture, gonePod, readyPod, revisionOf } from "./fixture.ts";

/** The events of a watch as `TYPE name`, without bookmarks, until an object of that name comes. */
export async function collected<R extends Resource>(
  { cluster }: Fixture,
  resource: R,
  query: WatchQuery,
  last: string,
): Promise<{ events: string[]; revisions: bigint[]; objects: ObjectTypes[R][] }> {
  const events: string[] = [];
  const revisions: bigint[] = [];
  const objects: ObjectTypes[R][] = [];
  for await (const event of cluster.watch(resource, query, { signal: AbortSignal.timeout(20_000) })) {
    if (event.type === "BOOKMARK") continue;
    const { name } = event.object.metadata;
    if (name === last) return { events, revisions, objects };
    events.push(`${event.type} ${name}`);
    revisions.push(revisionOf(event.object));
    objects.push(event.object);
  }
  assert.fail(`the watch ended before ${last} came: ${events.join(", ")}`);
}

/** The revision from which a case wants events. */
export async function now({ cluster, namespace }: Fixture, resource: Resource): Promise<string> {
  return (await cluster.list(resource, { namespace })).resourceVersion;
}

function annotate({ cluster, namespace }: Fixture, name: string, value: string) {
  return cluster.patch("leases", { namespace, name }, { metadata: { annotations: { value } } });
}

const order: readonly Case[] = [
  {
    name: "a watch from a list's revision sends every later change once and in order, including those before the watch was opened",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createLease(fixture, "before");
      const resourceVersion = await now(fixture, "leases");
      const a = await createLease(fixture, "a");
      await annotate(fixture, "a", "1");
      // The watch is open from here on: the changes before and after that must join without a gap.
      const listening = collected(fixture, "leases", { namespace, resourceVersion }, "last");
      await createLease(fixture, "b");
      for (const value of ["1", "2", "3"]) await annotate(fixture, "b", value);
      await cluster.delete("leases", { namespace, name: "a" }, { uid: a.metadata.uid });
      await createLease(fixture, "last");
      const { events, revisions } = await listening;
      const b = ["ADDED b", "MODIFIED b", "MODIFIED b", "MODIFIED b"];
      assert.deepEqual(events, ["ADDED a", "MODIFIED a", ...b, "DELETED a"]);
      assert.deepEqual(
        revisions,
        revisions.toSorted((x, y) => (x < y ? -1 : 1)),
      );
      assert.equal(new Set(revisions).size, revisions.length);
      assert.ok(revisions.every((revision) => revision > BigInt(resourceVersion)));
    },
  },
  {
    name: "a watch from an event's revision continues after that event",
    async run(fixture) {
      const { namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      for (const name of ["a", "b", "c", "last"]) await createLease(fixture, name);
      const { revisions } = await collected(fixture, "leases", { namespace, resourceVersion }, "c");
      const from = String(revisions.at(-1));
      const { events } = await collected(fixture, "leases", { namespace, resourceVersion: from }, "last");
      assert.deepEqual(events, ["ADDED c"]);
    },
  },
  {
    name: "two watches receive the same events",
    async run(fixture) {
      const { namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      const query = { namespace, resourceVersion };
      const listening = [collected(fixture, "leases", query, "last"), collected(fixture, "leases", query, "last")];
      await Promise.all(["a", "b", "c", "d", "e", "f"].map((name) => createLease(fixture, name)));
      await createLease(fixture, "last");
      const [first, second] = await Promise.all(listening);
      assert.equal(first?.events.length, 6);
      assert.deepEqual(first?.revisions, second?.revisions);
      assert.deepEqual(first?.events, second?.events);
    },
  },
  {
    name: "a write that changes nothing causes no event",
    async run(fixture) {
      const { namespace } = fixture;
      await createLease(fixture, "a", { value: "1" });
      const resourceVersion = await now(fixture, "leases");
      await annotate(fixture, "a", "1");
      await createLease(fixture, "last");
      const { events } = await collected(fixture, "leases", { namespace, resourceVersion }, "last");
      assert.deepEqual(events, []);
    },
  },
  {
    name: "a pod is ADDED, MODIFIED to Ready, MODIFIED to terminating and DELETED, each with a larger revision",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "pods");
      const { metadata } = await createPod(fixture, "pod");
      await readyPod(fixture, "pod");
      await cluster.delete("pods", { namespace, name: "pod" }, { uid: metadata.uid });
      await gonePod(fixture, "pod");
      await createPod(fixture, "last");
      const { events, objects } = await collected(fixture, "pods", { namespace, resourceVersion }, "last");
      assert.equal(events[0], "ADDED pod");
      assert.equal(events.at(-1), "DELETED pod");
      assert.deepEqual([...new Set(events.slice(1, -1))], ["MODIFIED pod"]);
      assert.ok(objects.at(-2)?.metadata.deletionTimestamp !== undefined);
      assert.ok(objects.every((object) => object.metadata.uid === metadata.uid));
    },
  },
];

const selection: readonly Case[] = [
  {
    name: "a watch with a selector gets ADDED for an object that begins to match, and DELETED for one that ceases to",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      await createLease(fixture, "a");
      const label = (value: string | null, annotation: string) =>
        cluster.patch(
          "leases",
          { namespace, name: "a" },
          { metadata: { labels: { watched: value }, annotations: { annotation } } },
        );
      await label("yes", "1");
      await label("yes", "2");
      const left = await label("no", "3");
      await label("no", "4");
      await label("yes", "5");
      await cluster.create("leases", namespace, { metadata: { name: "last", labels: { watched: "yes" } } });
      const query = { namespace, resourceVersion, labelSelector: "watched=yes" };
      const { events, revisions } = await collected(fixture, "leases", query, "last");
      assert.deepEqual(events, ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a"]);
      // A DELETED of this kind has the revision of the change that ended the match.
      assert.equal(revisions[2], revisionOf(left));
    },
  },
  {
    name: "a watch of one namespace gets no event of another; a watch of all namespaces gets both",
    async run(fixture) {
      const { cluster, namespace, otherNamespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      await cluster.create("leases", otherNamespace, { metadata: { name: "elsewhere" } });
      await createLease(fixture, "here");
      await createLease(fixture, `last-${namespace}`);
      const narrow = await collected(fixture, "leases", { namespace, resourceVersion }, `last-${namespace}`);
      assert.deepEqual(narrow.events, ["ADDED here"]);
      const wide = await collected(fixture, "leases", { resourceVersion }, `last-${namespace}`);
      const namespaces = wide.objects.map((object) => object.metadata.namespace);
      assert.ok(namespaces.includes(otherNamespace) && namespaces.includes(namespace));
    },
  },
  {
    name: "a DELETED event has the revision of the deletion, larger than any before it",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      const { metadata } = await createLease(fixture, "a");
      const between = await createLease(fixture, "b");
      await cluster.delete("leases", { namespace, name: "a" }, { uid: metadata.uid });
      await createLease(fixture, "last");
      const { events, revisions } = await collected(fixture, "leases", { namespace, resourceVersion }, "last");
      assert.deepEqual(events, ["ADDED a", "ADDED b", "DELETED a"]);
      assert.ok((revisions[2] ?? 0n) > revisionOf(between));
    },
  },
];

const endings: readonly Case[] = [
  {
    name: "a watch without events can be ended while it waits",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      const iterator = cluster.watch("leases", { namespace, resourceVersion })[Symbol.asyncIterator]();
      const waiting = iterator.next();
      await cluster.sleep(50);
      await iterator.return?.();
      assert.equal((await waiting).done, true);
      assert.equal((await iterator.next()).done, true);
    },
  },
  {
    name: "an aborted signal ends a watch with code 0, before it begins and while it waits",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      const events: WatchEvent<unknown>[] = [];
      const listen = async (signal: AbortSignal) => {
        const watch = cluster.watch("leases", { namespace, resourceVersion }, { signal });
        for await (const event of watch) if (event.type !== "BOOKMARK") events.push(event);
      };
      assert.equal((await rejection(listen(AbortSignal.abort()))).code, 0);
      const controller = new AbortController();
      const refused = rejection(listen(controller.signal));
      await cluster.sleep(50);
      controller.abort();
      assert.equal((await refused).code, 0);
      assert.deepEqual(events, []);
    },
  },
  {
    name: "a watch with a malformed selector rejects with 400",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "leases");
      const watch = cluster.watch("leases", { namespace, resourceVersion, labelSelector: "a=b=c" });
      assert.equal((await rejection(watch[Symbol.asyncIterator]().next())).code, 400);
    },
  },
  {
    name: "a watch from a forgotten revision rejects with 410",
    alone: true,
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const { metadata } = await createLease(fixture, "a");
      await annotate(fixture, "a", "1");
      await fixture.forgetHistory();
      const watch = cluster.watch("leases", { namespace, resourceVersion: metadata.resourceVersion });
      const error = await rejection(watch[Symbol.asyncIterator]().next());
      assert.equal(error.code, 410);
      assert.equal(error.reason, "Expired");
    },
  },
];

export const watchCases: readonly Case[] = [...order, ...selection, ...endings];
