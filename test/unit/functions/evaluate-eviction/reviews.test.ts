/** Reviews of evictions as the server passes them on: what the function reads of them, asks of the cluster, and answers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Asking, pinningPath, plainPaths, readAsking } from "../../../../functions/evaluate-eviction/observe.ts";
import type { AdmissionAnswer, AdmissionRequest, Denied } from "../../../../functions/shared/admission/definition.ts";
import { parsePod } from "../../../../functions/shared/workloads/pods.ts";
import { askedOf } from "../../../support/asked-eviction.ts";
import { Harness, key, ledgerKey, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { addBudget, governedGroup, Replica, reserved } from "./group-commit/reviews.ts";

const request = askedOf({ namespace: "db", name: "group-a-0" }, { uid: "review", deadlineMs: 0 });

const read = (changes: Partial<AdmissionRequest>) => readAsking({ ...request, ...changes }) as Asking;
const refusalOf = (answer: object) => answer as Denied;
const codeOf = (answer: AdmissionAnswer) => (answer.allowed ? 200 : answer.code);
const withOptions = (deleteOptions: unknown) => ({ object: { metadata: { name: "group-a-0" }, deleteOptions } });

test("invalid-request: anything but a CREATE of an eviction of a named pod is a 400, with rollout-operator's message", () => {
  for (const [changes, message] of [
    [{ operation: "DELETE" }, "request operation is not create, got: DELETE"],
    [{ operation: "" }, "request operation is not create, got: none"],
    [{ operation: "x".repeat(9_999) }, `request operation is not create, got: ${"x".repeat(60)}`],
    [{ subresource: "" }, "request SubResource is not eviction, got: none"],
    [{ subresource: "exec" }, "request SubResource is not eviction, got: exec"],
    [{ namespace: "" }, "request did not include both a namespace and a name"],
    [{ name: "" }, "request did not include both a namespace and a name"],
  ] as const) {
    const answer = refusalOf(readAsking({ ...request, ...changes }));
    assert.deepEqual([answer.allowed, answer.guard, answer.code], [false, "invalid-request", 400]);
    assert.equal(answer.message, message);
  }
});

test("the client's uid is read from its preconditions, whatever else they contain", () => {
  assert.equal(read(withOptions({ preconditions: { uid: "u-1" } })).wantedUid, "u-1");
  const others = [null, [], "u-1", {}, { uid: "" }, { uid: 7 }, { uid: null }, { resourceVersion: "7" }];
  for (const preconditions of others) assert.equal(read(withOptions({ preconditions })).wantedUid, undefined);
  for (const object of [undefined, null, "an eviction", [], 7]) assert.equal(read({ object }).wantedUid, undefined);
});

/** The Eviction after a JSON Patch of additions. */
function patched(object: unknown, operations: readonly object[]): unknown {
  const copy = structuredClone(object) as Record<string, unknown>;
  for (const { op, path, value } of operations as { op: string; path: string; value: unknown }[]) {
    assert.equal(op, "add");
    const parts = path.split("/").slice(1);
    const last = parts.pop() ?? "";
    const place = parts.reduce((at, part) => at[part] as Record<string, unknown>, copy);
    assert.ok(typeof place === "object" && place !== null, `${path} has nowhere to go`);
    place[last] = value;
  }
  return copy;
}

test("our own configuration pins the uid, and leaves the rest of the client's request (R11)", async () => {
  const harness = await governedGroup({ maxUnavailable: 4 }, { replicas: 6 });
  const replica = new Replica(harness);
  const given = [
    {},
    { deleteOptions: null },
    { deleteOptions: {} },
    { deleteOptions: { gracePeriodSeconds: 7, preconditions: null } },
    { deleteOptions: { gracePeriodSeconds: 7, preconditions: {} } },
    { deleteOptions: { preconditions: { resourceVersion: "9" }, propagationPolicy: "Background" } },
  ];
  const uid = replica.uidOf("group-a-0");
  for (const object of given) {
    const answer = await replica.answer(replica.review("group-a-0", { object }));
    assert.ok(answer.allowed);
    const { deleteOptions } = patched(object, answer.patch ?? []) as { deleteOptions: { preconditions: object } };
    const before = (object as { deleteOptions?: { preconditions?: object | null } | null }).deleteOptions;
    assert.deepEqual(deleteOptions, { ...before, preconditions: { ...before?.preconditions, uid } });
  }
});

test("Sluice patches nothing if the client named the uid itself, or if the webhook only validates", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const named = withOptions({ preconditions: { uid: replica.uidOf("group-a-0") } });
  // An eviction by name alone may not take the pod again that was just allowed to go.
  for (const changes of [{ path: plainPaths[0] }, named]) {
    const answer = await replica.answer(replica.review("group-a-0", changes));
    assert.deepEqual([answer.guard, answer.allowed && answer.patch], ["allowed", []]);
  }
});

test("uid-conflict: an eviction for another pod of that name is a 409, as by the API server", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const answer = await replica.answer(replica.review("group-a-0", withOptions({ preconditions: { uid: "another" } })));
  assert.deepEqual([answer.guard, codeOf(answer)], ["uid-conflict", 409]);
  assert.deepEqual(reserved(harness), []);
});

test("pod-gone: a pod that is gone is a 404, which kubectl drain counts as done", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const answer = await replica.answer(replica.review("group-a-9"));
  assert.deepEqual([answer.guard, codeOf(answer)], ["pod-gone", 404]);
  assert.equal(refusalOf(answer).message, 'pods "group-a-9" not found');
});

/** A process whose cache still has the pod as it was before `change`. */
async function behind(change: (harness: Harness) => void) {
  const harness = await governedGroup();
  const cache = await harness.watch();
  const old = parsePod(harness.world.store.get("pods", { namespace, name: "group-a-0" }));
  change(harness);
  harness.world.settle();
  const replica = new Replica(harness, () => ({ cache: { ...cache, pod: async () => old } }));
  return { harness, replica, cache, old };
}

test("if the cache is behind the client, Sluice asks the API server before it refuses", async () => {
  const { replica, cache, old } = await behind(({ world }) => {
    world.store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 0 });
  });
  const uid = replica.uidOf("group-a-0");
  const meant = (wanted: string) => replica.review("group-a-0", withOptions({ preconditions: { uid: wanted } }));
  assert.deepEqual(await replica.guards(meant(uid)), ["allowed"]);
  assert.equal(replica.count("get pods"), 1);
  const stale = await replica.answer(meant(old.uid));
  assert.equal(stale.guard, "pod-unseen", "what memory has is asked of the group's view");
  await cache.stop();
});

test("exempt: if nothing pins its uid, a pod counts as terminating only if the API server says so (R11, R14)", async () => {
  for (const [path, guard, reads] of [
    [pinningPath, "exempt", 0],
    // Once for the decision, and once for the reservation.
    [plainPaths[0], "allowed", 2],
  ] as const) {
    const { harness, replica, cache, old } = await behind(({ world }) => {
      world.store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 0 });
    });
    const memory = { ...cache, pod: async () => ({ ...old, terminating: true }) };
    const deciding = new Replica(harness, () => ({ cache: memory }));
    const answer = await deciding.answer(deciding.review("group-a-0", { path }));
    assert.deepEqual([answer.guard, deciding.count("get pods")], [guard, reads]);
    const isPinned = answer.allowed && JSON.stringify(answer.patch).includes(old.uid);
    assert.equal(isPinned, path === pinningPath, "what is pinned is the pod that was decided");
    assert.deepEqual(reserved(harness), guard === "exempt" ? [] : ["group-a-0 by evaluate-eviction"]);
    assert.ok(replica.uidOf("group-a-0") !== old.uid);
    await cache.stop();
  }
});

test("replacement-reserved: if nothing pins the uid, a new replacement stays until it is ready (R11)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const uid = replica.uidOf("group-a-0");
  await replica.guards(replica.review("group-a-0", { path: plainPaths[0] }));
  harness.world.store.delete(
    "pods",
    { namespace, name: "group-a-0" },
    { gracePeriodSeconds: 0, preconditions: { uid } },
  );
  await harness.goOn(500);
  const isThere = harness.world.store.find("pods", { namespace, name: "group-a-0" });
  assert.ok(isThere !== undefined && isThere.metadata.uid !== uid, "its replacement is there, and not ready");
  const byName = await replica.answer(replica.review("group-a-0", { path: plainPaths[0] }));
  assert.deepEqual([byName.guard, codeOf(byName)], ["replacement-reserved", 429]);
  const named = withOptions({ preconditions: { uid: replica.uidOf("group-a-0") } });
  const dry = { dryRun: true };
  const asked = [
    replica.review("group-a-0", { ...dry, path: pinningPath }),
    replica.review("group-a-0", { ...dry, ...named, path: plainPaths[0] }),
  ];
  assert.deepEqual(await replica.guards(...asked), ["allowed", "allowed"]);
  harness.world.settle();
  assert.deepEqual(await replica.guards(replica.review("group-a-0", { path: plainPaths[0] })), ["allowed"]);
});

test("out-of-scope: a pod that no budget selects is allowed without a ledger, a LIST or a write", async () => {
  const harness = new Harness();
  const replica = new Replica(harness);
  const answer = await replica.answer(replica.review("group-a-0"));
  assert.deepEqual([answer.guard, answer.allowed, replica.writes], ["out-of-scope", true, []]);
  assert.ok(!replica.requests.includes("get leases"));
});

test("out-of-scope pins the decided pod; if nothing can, Sluice asks the API server which pod has that name", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const { uid } = harness.world.store.get("pods", { namespace, name: "group-a-0" }).metadata;
  const found = await played(harness.timeline, replica.context.cache.pod({ namespace, name: "group-a-0" }));
  const old = { ...(found ?? assert.fail()), labels: {} };
  // The state that a watch delivered before the pod had the labels that the budget selects.
  const cache = { ...replica.context.cache, pod: async () => old };
  const behind = new Replica(harness, () => ({ cache }));
  const pinned = await behind.answer(behind.review("group-a-0"));
  assert.deepEqual([pinned.guard, "patch" in pinned && pinned.patch?.length], ["out-of-scope", 1]);
  assert.match(JSON.stringify(pinned), new RegExp(uid));
  const unpinned = await behind.answer(behind.review("group-a-0", { path: plainPaths[0] }));
  assert.equal(unpinned.guard, "allowed");
  assert.deepEqual(reserved(harness), ["group-a-0 by evaluate-eviction"]);
});

test("no-statefulset: a pod that a budget selects and something else controls is a 500, as in rollout-operator; one without a controller is a 429", async () => {
  const harness = await governedGroup();
  // The owners of these pods do not exist, so the pods would soon be gone as well.
  harness.world.garbageCollector.stop();
  const labels = { "rollout-group": "group" };
  const replicaSet = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "rs", uid: "uid-of-rs", controller: true };
  const other = { apiVersion: "apps/v1", kind: "StatefulSet", name: "gone", uid: "uid-of-gone", controller: true };
  const replica = new Replica(harness);
  for (const [name, ownerReferences, code, advice] of [
    ["alone-0", [], 429, "make the StatefulSet alone again if this pod is of it, or delete this pod"],
    ["owned-by-others-0", [replicaSet], 500, "change the selector"],
    ["gone-0", [other], 429, "make the StatefulSet gone again if this pod is of it, or delete this pod"],
    ["group-a-17", [{ ...other, name: "group-a" }], 429, "or delete this pod"],
  ] as const) {
    harness.world.store.create("pods", namespace, {
      metadata: { name, labels, ownerReferences },
      spec: { containers: [] },
    });
    await harness.goOn(0);
    const answer = await replica.answer(replica.review(name));
    assert.deepEqual([answer.guard, codeOf(answer)], ["no-statefulset", code], name);
    assert.ok(refusalOf(answer).message.endsWith(advice), refusalOf(answer).message);
  }
  harness.world.store.create("pods", namespace, {
    metadata: { name: "group-a-0-debug", labels },
    spec: { containers: [] },
  });
  const copy = await replica.answer(replica.review("group-a-0-debug"));
  assert.equal(copy.guard, "out-of-scope", "a copy that a user made counts in no zone");
  assert.match(
    String(copy.allowed && copy.warnings),
    /which nothing controls: it counts in no zone, and may go; delete this pod/,
  );
  assert.deepEqual(reserved(harness), []);
});

test("namespace-not-served: a review of another namespace is a 400 that says what to register", async () => {
  const harness = await governedGroup();
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache, namespaces: [namespace] }));
  const answer = await replica.answer(replica.review("group-a-0", { namespace: "elsewhere" }));
  assert.deepEqual([answer.guard, codeOf(answer)], ["namespace-not-served", 400]);
  assert.match(
    refusalOf(answer).message,
    /^namespace elsewhere is not served here, only db: give .+ a namespaceSelector$/,
  );
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  await cache.stop();
});

test("a pod that neither the cache nor the API server has in time is also a 429", async () => {
  for (const [code, guard] of [
    [503, "api-server-away"],
    [403, "right-missing"],
  ] as const) {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    replica.interfere = ({ verb, resource }) => {
      if (verb === "get" && resource === "pods") throw refused(code, "it would not");
    };
    const answer = await replica.answer(replica.review("group-a-0"));
    assert.deepEqual([answer.guard, codeOf(answer)], [guard, 429]);
    assert.match(refusalOf(answer).message, /^to decide about pod group-a-0, Sluice has to .+: it would not$/);
  }
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = ({ verb, resource }) => {
    return verb === "get" && resource === "pods" ? replica.cluster.sleep(60_000) : undefined;
  };
  const deadlineMs = replica.cluster.monotonicMs() + 910;
  const answer = await replica.answer(replica.review("group-a-0", { deadlineMs }));
  assert.deepEqual([answer.guard, codeOf(answer)], ["late", 429]);
  assert.equal(replica.cluster.monotonicMs(), deadlineMs);
});

test("a budget of StatefulSets without a rollout-group has a ledger of its own, named after it (R1)", async () => {
  const harness = new Harness();
  const { store } = harness.world;
  for (const name of ["group-a", "group-b"]) {
    store.patch("statefulsets", { namespace, name }, { metadata: { labels: { "rollout-group": null, app: "db" } } });
  }
  for (const { metadata } of store.list("pods").items) {
    store.patch("pods", { namespace, name: metadata.name }, { metadata: { labels: { app: "db" } } });
  }
  addBudget(harness, { selector: { matchLabels: { app: "db" } }, maxUnavailable: 1 });
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-new"]);
  await harness.goOn(60_000);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  assert.deepEqual(await replica.guards(replica.review("group-b-0")), ["zones-down"]);
  const [ledger, ...others] = store.list("leases").items;
  assert.equal(others.length, 0);
  assert.equal(ledger?.metadata.annotations?.["sluice.dev/group"], "budget:budget");
  assert.match(ledger?.metadata.annotations?.["sluice.dev/reservations"] ?? "", /^\{"group-a":\{"0":/);
});

test("a StatefulSet that has just left its group is not reported as a mistake of labels", async () => {
  const harness = await governedGroup();
  const cache = await harness.watch();
  const old = parsePod(harness.world.store.get("pods", { namespace, name: "group-a-0" }));
  const owner = await cache.ownerOf(old);
  const moved = { metadata: { labels: { "rollout-group": "other" } } };
  harness.world.store.patch("statefulsets", { namespace, name: "group-a" }, moved);
  const memory = { ...cache, pod: async () => old, ownerOf: async () => owner };
  const replica = new Replica(harness, () => ({ cache: memory }));
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["pod-unseen"]);
  await cache.stop();
});

test("a refusal is an Event on the StatefulSet, once a minute for each guard, however often reviews come", async () => {
  const harness = await governedGroup();
  const [one, two] = [new Replica(harness), new Replica(harness)];
  await one.guards(one.review("group-a-0"));
  for (let round = 0; round < 3; round++) {
    await harness.goOn(5_000);
    assert.deepEqual(await one.guards(one.review("group-a-1"), one.review("group-a-2")), [
      "zone-budget",
      "zone-budget",
    ]);
    assert.deepEqual(await two.guards(two.review("group-a-3"), two.review("group-b-0")), ["zone-budget", "zones-down"]);
  }
  await harness.goOn(10);
  const events = harness.events.filter((event) => event.startsWith("EvictionRefused"));
  assert.equal(events.length, 2, events.join("\n"));
  assert.match(
    events.join("\n"),
    /^EvictionRefused group-a: zone-budget: 1 pod not ready in group-a: 1 may be down, so/m,
  );
  assert.match(
    events.join("\n"),
    /^EvictionRefused group-b: zones-down: 1 pod not ready in group-a: no pod of group-b/m,
  );
  await harness.goOn(60_000);
  await one.guards(one.review("group-a-2"));
  await harness.goOn(10);
  assert.equal(harness.events.filter((event) => event.startsWith("EvictionRefused group-a")).length, 2);
});

test("a dry run sends no Event and creates no ledger, so that it leaves no trace (E2)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await replica.guards(replica.review("group-a-0"));
  const leavesNoTrace = async (expected: readonly string[]) => {
    const { revision } = harness.world.store;
    const fresh = new Replica(harness);
    const pods = ["group-a-0", "group-a-1", "group-b-0", "group-a-9"];
    assert.deepEqual(await fresh.guards(...pods.map((pod) => fresh.review(pod, { dryRun: true }))), expected);
    await harness.goOn(10);
    assert.deepEqual(fresh.writes, []);
    assert.equal(harness.world.store.revision, revision);
  };
  await leavesNoTrace(["allowed", "zone-budget", "zones-down", "pod-gone"]);
  harness.world.store.delete("leases", ledgerKey);
  await leavesNoTrace(["allowed", "allowed", "allowed", "pod-gone"]);
});

test("in shadow mode every eviction is allowed unchanged, with a warning that says what Sluice would have answered (R16)", async () => {
  const harness = await governedGroup();
  harness.world.kubelet.breakPod({ namespace, name: "group-b-1" });
  await harness.goOn(100);
  const replica = new Replica(harness, () => ({ mode: "shadow" }));
  const { revision } = harness.world.store;
  const parked = await replica.answer(replica.review("group-a-0"));
  assert.deepEqual([parked.allowed, parked.guard], [true, "zones-down"]);
  assert.match(
    parked.allowed ? String(parked.warnings) : "",
    /^in shadow mode; otherwise refused with 429: 1 pod not ready/,
  );
  const free = await replica.answer(replica.review("group-b-1"));
  const reserved = { zone: "group-b", patch: [], otherwise: "reserved", group: "group" };
  assert.deepEqual(free, { allowed: true, guard: "allowed", warnings: [], ...reserved });
  assert.equal((await replica.answer(replica.review("group-a-0", { operation: "DELETE" }))).allowed, true);
  assert.equal(harness.world.store.revision, revision);
});

test("reviews of several groups do not wait for each other", async () => {
  const harness = new Harness();
  harness.world.addGroup({ namespace, group: "other", zones: ["a", "b"], replicas: 2 });
  harness.world.settle();
  addBudget(harness);
  addBudget(harness, { selector: { matchLabels: { "rollout-group": "other" } } }, "of-the-other");
  const replica = new Replica(harness);
  const both = () => [replica.review("group-a-0"), replica.review("other-a-0")] as const;
  await replica.guards(...both());
  await harness.goOn(60_000);
  replica.interfere = ({ verb, given }) => {
    const isSlow = verb === "patch" && (given[1] as { name: string }).name === `sluice-${key.group}`;
    return isSlow ? replica.cluster.sleep(3_000) : undefined;
  };
  const [slow, quick] = both();
  const startMs = replica.cluster.monotonicMs();
  assert.equal((await replica.answer(quick)).guard, "allowed");
  assert.ok(replica.cluster.monotonicMs() - startMs < 100);
  assert.equal((await replica.answer(slow)).guard, "allowed");
});
