import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import type { SteadyClock } from "../../../../functions/shared/clock/steady-clock.ts";
import { ClusterError, KindNotServedError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { Discovery } from "../../../../functions/shared/kubernetes/discovery.ts";
import { rejection } from "../../../support/rejection.ts";
import { type Exchange, refuse, withServer } from "./server.ts";

const group = "example.com";

/** An API server's discovery, whose requests are counted and delayed, over a clock that the test sets. */
class PlayedDiscovery {
  readonly asked: string[] = [];
  nowMs = 0;
  /** Answers by path. An Error is thrown, and a path without an answer is a 404. */
  documents: Record<string, unknown> = {};
  /** While it is set, answers wait for it. */
  blockedUntil: Promise<void> | undefined;
  /** Requests that are under way now, and the most that were. */
  underWay = 0;
  most = 0;
  readonly discovery = new Discovery({
    read: async (path) => {
      this.asked.push(path);
      this.most = Math.max(this.most, ++this.underWay);
      await this.blockedUntil;
      this.underWay--;
      const answer = this.documents[path];
      if (answer === undefined) throw failure(404);
      if (answer instanceof Error) throw answer;
      return answer;
    },
    nowMs: () => this.nowMs,
  });

  serve(kinds: Readonly<Record<string, readonly string[]>>, preferred = Object.keys(kinds)[0]): this {
    const versions = Object.keys(kinds).map((version) => ({ version, groupVersion: `${group}/${version}` }));
    this.documents = {
      [`/apis/${group}`]: { versions, preferredVersion: { version: preferred } },
      ...Object.fromEntries(
        Object.entries(kinds).map(([version, names]) => [
          `/apis/${group}/${version}`,
          { resources: names.map((kind) => ({ name: `${kind.toLowerCase()}s`, kind, namespaced: true })) },
        ]),
      ),
    };
    return this;
  }

  async versionOf(kind: string): Promise<string> {
    return (await this.discovery.resourceOf(group, kind)).version;
  }

  async isMissing(kind: string): Promise<boolean> {
    return await this.discovery.resourceOf(group, kind).then(
      () => false,
      (error) => error instanceof KindNotServedError,
    );
  }

  /** Number of documents that were requested since the last call. */
  takeAsked(): number {
    return this.asked.splice(0).length;
  }
}

const failure = (code: number) =>
  new ClusterError({ code, reason: "Played", message: `played: ${code}`, verb: "get", resource: "document" });

test("a kind is read in its preferred version if that has it, whatever the order, and otherwise in one that has it", async () => {
  const played = new PlayedDiscovery().serve(
    { v1beta1: ["Old", "Both"], v1: ["Both"], v2alpha1: ["Both", "New"] },
    "v1",
  );
  assert.equal(await played.versionOf("Both"), "v1");
  assert.deepEqual([await played.versionOf("Old"), await played.versionOf("New")], ["v1beta1", "v2alpha1"]);
  assert.equal(played.takeAsked(), 4, "one read of the group serves all its kinds");
});

test("a kind that was found is read again after five minutes, and a missing one after five seconds", async () => {
  const played = new PlayedDiscovery().serve({ v1: ["Template"] });
  await played.versionOf("Template");
  played.takeAsked();
  played.nowMs = 299_999;
  await played.versionOf("Template");
  assert.equal(played.takeAsked(), 0);
  played.nowMs = 300_000;
  await played.versionOf("Template");
  assert.equal(played.takeAsked(), 2);
  assert.ok(await played.isMissing("Other"));
  played.serve({ v1: ["Template", "Other"] });
  played.nowMs += 4_999;
  assert.ok(await played.isMissing("Other"));
  assert.equal(played.takeAsked(), 0);
  played.nowMs += 1;
  assert.equal(await played.versionOf("Other"), "v1");
});

test("a missing group is requested once in five seconds, whichever of its kinds are named", async () => {
  const played = new PlayedDiscovery();
  for (const kind of ["A", "B", "C"]) assert.ok(await played.isMissing(kind));
  assert.deepEqual(played.asked, [`/apis/${group}`]);
});

test("after a 404 for one of its objects a kind is read again, but not twice in five seconds", async () => {
  const played = new PlayedDiscovery().serve({ v1: ["Template"] });
  await played.versionOf("Template");
  played.takeAsked();
  played.serve({ v2: ["Template"] });
  played.discovery.doubt(`/apis/${group}/v1/templates`);
  played.nowMs = 4_999;
  assert.equal(await played.versionOf("Template"), "v1");
  played.nowMs = 5_000;
  assert.equal(await played.versionOf("Template"), "v2");
  assert.equal(played.takeAsked(), 2);
  played.nowMs = 60_000;
  await played.versionOf("Template");
  assert.equal(played.takeAsked(), 0, "it was requested once");
  played.documents = {};
  played.discovery.doubt(`/apis/${group}/v2/templates`);
  assert.ok(await played.isMissing("Template"));
});

test("callers of one group at the same time share its requests, and each may abort alone", async () => {
  const played = new PlayedDiscovery().serve({ v1: ["A"], v2: ["B"] });
  let release = () => {};
  played.blockedUntil = new Promise((resolve) => {
    release = resolve;
  });
  const giving = new AbortController();
  const given = rejection(played.discovery.resourceOf(group, "A", giving.signal));
  const others = ["A", "B", "A"].map((kind) => played.versionOf(kind));
  giving.abort();
  assert.deepEqual([(await given).code, (await given).reason], [0, "Aborted"]);
  release();
  assert.deepEqual(await Promise.all(others), ["v1", "v2", "v1"]);
  assert.deepEqual([played.asked.length, played.most], [3, 1]);
  const late = await rejection(played.discovery.resourceOf("other.example.com", "A", giving.signal));
  assert.deepEqual([late.reason, played.asked.length], ["Aborted", 3], "a call that is already aborted sends nothing");
});

test("an error is not remembered, and a version that cannot be read hides only its own kinds", async () => {
  const played = new PlayedDiscovery().serve({ v1: ["A"], v2: ["B"] });
  played.documents = { ...played.documents, [`/apis/${group}/v2`]: failure(503) };
  assert.equal(await played.versionOf("A"), "v1");
  assert.equal(
    (await rejection(played.discovery.resourceOf(group, "B"))).code,
    503,
    "the version that was not read may have it",
  );
  played.serve({ v1: ["A"], v2: ["B"] });
  played.nowMs = 5_000;
  assert.equal(await played.versionOf("B"), "v2");
  played.serve({ v1: ["Both"], v2: ["Both"] });
  const { [`/apis/${group}/v1`]: first, ...others } = played.documents;
  played.documents = { ...others, [`/apis/${group}/v1`]: failure(503) };
  played.nowMs = 400_000;
  assert.equal(await played.versionOf("Both"), "v2", "the preferred version cannot be read");
  played.documents = { ...others, [`/apis/${group}/v1`]: first };
  played.nowMs += 5_000;
  assert.equal(await played.versionOf("Both"), "v1");
  const broken = new PlayedDiscovery();
  broken.documents = { [`/apis/${group}`]: failure(500) };
  assert.equal((await rejection(broken.discovery.resourceOf(group, "A"))).code, 500);
  broken.serve({ v1: ["A"] });
  assert.equal(await broken.versionOf("A"), "v1");
});

test("a version that disappears during the read has no kinds, and a kind of subresources alone is none", async () => {
  const played = new PlayedDiscovery().serve({ v1: ["A"], v2: ["B"] });
  const v1 = {
    resources: [
      { name: "as", kind: "A" },
      { name: "as/eviction", kind: "Eviction" },
    ],
  };
  played.documents = { ...played.documents, [`/apis/${group}/v1`]: v1, [`/apis/${group}/v2`]: undefined };
  assert.ok((await played.isMissing("B")) && (await played.isMissing("Eviction")));
  assert.equal(await played.versionOf("A"), "v1");
});

test("a malformed document has no kinds, and causes no error", async () => {
  for (const document of [
    null,
    7,
    "html",
    [],
    {},
    { versions: {}, preferredVersion: null },
    { versions: [null, {}] },
  ]) {
    const played = new PlayedDiscovery();
    played.documents = { [`/apis/${group}`]: document };
    assert.ok(await played.isMissing("A"), JSON.stringify(document));
  }
  for (const document of [null, { resources: {} }, { resources: [null, {}, { name: "as" }, { kind: "A" }] }]) {
    const played = new PlayedDiscovery().serve({ v1: ["B"] });
    played.documents = { ...played.documents, [`/apis/${group}/v1`]: document };
    assert.ok(await played.isMissing("A"), JSON.stringify(document));
  }
});

test("the hundred groups that were last used are remembered", async () => {
  const played = new PlayedDiscovery();
  const ask = (name: string) => rejection(played.discovery.resourceOf(name, "A"));
  await ask("first");
  for (let count = 0; count < 99; count++) await ask(`group-${count}`);
  await ask("first");
  assert.equal(played.takeAsked(), 100);
  await ask("one-more");
  await ask("first");
  assert.equal(played.takeAsked(), 1);
  await ask("group-0");
  assert.equal(played.takeAsked(), 1, "it was forgotten");
});

test("a malformed name of a group never becomes a path, and messages shorten long names", async () => {
  const played = new PlayedDiscovery();
  for (const name of ["..", ".", "a/b", "a?b", "A", "-a", " ", "a".repeat(254)]) {
    const error = await rejection(played.discovery.resourceOf(name, "K".repeat(10_000)));
    assert.ok(error instanceof KindNotServedError && error.message.length < 400, name);
  }
  assert.deepEqual(played.asked, []);
});

/** Answers for a group of one kind, and 404 for everything else. */
function answerTemplates(exchange: Exchange): void {
  const { request, response } = exchange;
  const resources = [
    { name: "templates", kind: "Template", namespaced: true },
    { name: "templates/scale", kind: "Scale", group: "autoscaling", version: "v1", namespaced: true },
  ];
  const documents: Record<string, object> = {
    [`/apis/${group}`]: { versions: [{ version: "v1" }], preferredVersion: { version: "v1" } },
    [`/apis/${group}/v1`]: { resources },
  };
  const document = documents[request.url ?? ""];
  if (document === undefined) refuse(exchange, 404, "NotFound");
  else response.end(JSON.stringify(document));
}

test("the client reads the documents of the group, and then the objects at their path", async () => {
  const labels: string[] = [];
  await withServer({ onRequest: ({ path }) => void labels.push(path) }, async ({ cluster, server }) => {
    server.answer(answerTemplates);
    const { resource, hasScale } = await cluster.resourceOf(group, "Template");
    assert.equal(hasScale, true);
    await rejection(cluster.get(resource, { namespace: "ns", name: "a b" }, { subresource: "scale" }));
    assert.deepEqual(
      server.requests.map(({ url }) => url),
      [`/apis/${group}`, `/apis/${group}/v1`, `/apis/${group}/v1/namespaces/ns/templates/a%20b/scale`],
    );
    // Users choose the names of groups, so these are no labels of a metric before the API server serves them.
    assert.deepEqual(labels, ["/apis/GROUP", "/apis/GROUP/VERSION", `${group}/v1/templates object scale subresource`]);
  });
});

test("after a 404 for an object the client checks whether its kind is still served", async () => {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, skippedMs: () => 0 } as SteadyClock;
  await withServer({ clock }, async ({ cluster, server }) => {
    server.answer(answerTemplates);
    const { resource } = await cluster.resourceOf(group, "Template");
    nowMs = 5_000;
    await cluster.resourceOf(group, "Template");
    assert.equal(server.requests.length, 2);
    await rejection(cluster.get(resource, { namespace: "ns", name: "one" }));
    server.answer((exchange) => refuse(exchange, 404, "NotFound"));
    assert.ok((await rejection(cluster.resourceOf(group, "Template"))) instanceof KindNotServedError);
  });
});

test("a document of discovery is read up to a megabyte, compressed or not, and a larger one is an error that says so", async () => {
  const large = JSON.stringify({ versions: [], padding: " ".repeat(2_000_000) });
  for (const isCompressed of [false, true]) {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => {
        if (isCompressed) response.setHeader("content-encoding", "gzip");
        response.end(isCompressed ? gzipSync(large) : large);
      });
      const error = await rejection(cluster.resourceOf(group, "Template"));
      assert.equal(error.code, 0);
      assert.match(error.message, isCompressed ? /cannot be decompressed: .*1048576/ : /more than 1048576 bytes/);
    });
  }
});
