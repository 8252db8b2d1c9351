/** The request for each target, how each answer is reported, and when the group is read again. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { actOn } from "../../../../functions/advance-zone-rollout/act.ts";
import type { RolloutTarget } from "../../../../functions/advance-zone-rollout/decide-pods.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { Reservation } from "../../../../functions/shared/ledger/reservation.ts";
import { type ActRun, carryOutAll } from "../../../../functions/shared/reconcile/act.ts";
import { type Pod, parsePod } from "../../../../functions/shared/workloads/pods.ts";
import { parseStatefulSet, type StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { type Call, Harness, key, namespace, played, refused } from "./harness.ts";

const by = "advance-zone-rollout";
const statefulSetOf = (harness: Harness): StatefulSet =>
  parseStatefulSet(harness.world.store.get("statefulsets", { namespace, name: "group-a" }));
const podOf = (harness: Harness, name = "group-a-0"): Pod =>
  parsePod(harness.world.store.get("pods", { namespace, name }));

type Action = RolloutTarget["action"];
const actions: readonly Action[] = ["delete", "repair", "record-revision"];

function targetOf(harness: Harness, action: Action, name?: string): RolloutTarget {
  const statefulSet = statefulSetOf(harness);
  if (action === "record-revision") return { action, statefulSet };
  const pod = podOf(harness, name);
  return action === "delete"
    ? { action, statefulSet, pod }
    : { action, statefulSet, pod, cause: "in CrashLoopBackOff" };
}

/** Carries targets out within this time. Resolves to the time of the next reconcile. */
function carryOut(harness: Harness, targets: readonly RolloutTarget[], changes: Partial<ActRun> = {}) {
  const deadlineMs = harness.cluster.monotonicMs() + 5_000;
  const ledger = { sole: new Map(), isOfLedger: () => false };
  const run = { context: harness.context, by, key, deadlineMs, ...ledger, ...changes };
  return played(harness.timeline, carryOutAll(run, targets.map(actOn)));
}

/** Carries out a target whose call fails. Resolves to the time of the next reconcile, and to the report. */
async function answered(action: Action, error: ClusterError, changes: Partial<ActRun> = {}) {
  const harness = new Harness();
  harness.interfere = ({ resource }) => {
    if (resource !== "events") throw error;
  };
  const requeueAfterMs = await carryOut(harness, [targetOf(harness, action)], changes);
  return { harness, requeueAfterMs, results: harness.acts.map(({ result }) => result) };
}

/** The API server's answer to the last of this many tries. */
const answers = (code: number, attempts = 1, message = "no") =>
  new ClusterError({ code, reason: "Test", message, verb: "delete", resource: "pods", attempts });

const written = (harness: Harness): Call[] =>
  harness.calls.filter(({ verb, resource }) => resource !== "events" && (verb === "delete" || verb === "patch"));

describe("what is sent", () => {
  test("a pod is deleted by its uid, and a broken one also by its resourceVersion, and neither after the deadline (R9, R13)", async () => {
    const harness = new Harness();
    const { uid, resourceVersion } = podOf(harness, "group-a-1");
    const notAfterMs = harness.cluster.monotonicMs() + 1_234;
    const targets = [targetOf(harness, "delete"), targetOf(harness, "repair", "group-a-1")];
    assert.equal(await carryOut(harness, targets, { deadlineMs: notAfterMs }), undefined);
    assert.deepEqual(
      written(harness).map(({ given }) => given.slice(2)),
      [
        [{ uid: (targets[0] as { pod: Pod }).pod.uid }, { notAfterMs }],
        [{ uid, resourceVersion: String(resourceVersion) }, { notAfterMs }],
      ],
    );
    assert.deepEqual(harness.acts.map(({ action, object, zone, result }) => [action, object, zone, result]).sort(), [
      ["delete", "group-a-0", "group-a", "done"],
      ["repair", "group-a-1", "group-a", "done"],
    ]);
  });

  test("currentRevision is written under the revision that was read, not after the deadline, and the group is read again at once", async () => {
    const harness = new Harness();
    const statefulSet = { ...statefulSetOf(harness), updateRevision: "newer" };
    const notAfterMs = harness.cluster.monotonicMs() + 1_234;
    const learned: unknown[] = [];
    harness.use({ ...harness.context.cache, learn: (object) => void learned.push(object.metadata.name) });
    assert.equal(await carryOut(harness, [{ action: "record-revision", statefulSet }], { deadlineMs: notAfterMs }), 20);
    const [, , body, call] = written(harness)[0]?.given ?? [];
    const metadata = { resourceVersion: statefulSet.resourceVersion };
    assert.deepEqual(body, { metadata, status: { currentRevision: "newer" } });
    assert.deepEqual(call, { subresource: "status", notAfterMs });
    assert.equal(statefulSetOf(harness).currentRevision, "newer");
    assert.deepEqual(learned, ["group-a"], "the answer is learnt without the watch");
    assert.deepEqual(
      harness.acts.map(({ object, result }) => [object, result]),
      [["group-a", "done"]],
    );
  });

  test("an act may start at its deadline, and afterwards is reported late, and the group is read again in seven seconds (R9)", async () => {
    for (const action of actions) {
      const harness = new Harness();
      await harness.goOn(10);
      const deadlineMs = harness.cluster.monotonicMs();
      const target = targetOf(harness, action);
      assert.equal(await carryOut(harness, [target], { deadlineMs: deadlineMs - 1 }), 7_000);
      assert.deepEqual([written(harness), harness.acts.map(({ result }) => result)], [[], ["late"]]);
      await carryOut(harness, [target], { deadlineMs });
      assert.deepEqual(
        harness.acts.map(({ result }) => result),
        ["late", "done"],
      );
    }
  });

  test("the earliest requeue of several acts counts", async () => {
    const harness = new Harness();
    const only = (name: string, error: ClusterError) => (call: Call) => {
      if (call.verb === "delete" && (call.given[1] as { name: string }).name === name) throw error;
    };
    harness.interfere = only("group-a-1", answers(503));
    const targets = [targetOf(harness, "record-revision"), targetOf(harness, "delete", "group-a-1")];
    assert.equal(await carryOut(harness, targets), 20);
    assert.equal(
      await carryOut(harness, [targetOf(harness, "delete"), targetOf(harness, "delete", "group-a-1")]),
      7_000,
    );
  });

  test("without an act there is no requeue", async () => {
    assert.equal(await carryOut(new Harness(), []), undefined);
  });
});

describe("what is answered", () => {
  test("a pod that is gone or recreated needs no requeue; any other conflict is read again in a second", async () => {
    for (const [code, result] of [
      [404, "gone"],
      [409, "changed"],
    ] as const) {
      for (const action of actions) {
        const { harness, requeueAfterMs, results } = await answered(action, answers(code));
        assert.deepEqual([requeueAfterMs, results], [action === "delete" ? undefined : 1_000, [result]], action);
        assert.deepEqual([harness.events, harness.context.memoryOf(key).refusals.size], [[], 0]);
      }
    }
  });

  test("without an answer the group is read again after seven seconds for a deletion, and after one second otherwise", async () => {
    for (const action of actions) {
      const { harness, requeueAfterMs, results } = await answered(action, answers(503));
      assert.deepEqual([requeueAfterMs, results], [action === "delete" ? 7_000 : 1_000, ["failed"]], action);
      assert.deepEqual([harness.events, harness.context.memoryOf(key).refusals.size], [[], 0]);
    }
  });

  test("a refusal is reported, recorded as an Event on the StatefulSet, and remembered by the uid of its object", async () => {
    for (const action of actions) {
      const { harness, requeueAfterMs, results } = await answered(action, answers(403, 1, "a webhook said no"));
      assert.deepEqual([requeueAfterMs, results], [7_000, ["refused"]], action);
      const isOfPod = action !== "record-revision";
      const { uid, name } = isOfPod ? podOf(harness) : statefulSetOf(harness);
      const message = `delete of ${name} was refused with 403: a webhook said no`;
      const stampMs = harness.cluster.serverTimeMs();
      assert.deepEqual(
        [...harness.context.memoryOf(key).refusals],
        [[uid, { uid, pod: name, message, stampMs }]],
        "by the pod's uid, or by the StatefulSet's",
      );
      assert.deepEqual(harness.events, [`DeleteRefused group-a: ${message}`]);
      assert.equal(harness.context.memoryOf(key).refusedOnce.size, 0);
    }
  });

  test("each refused pod has an Event of its own, and a missing right one for all pods", async () => {
    const message = 'pods "p" is forbidden: User "u" cannot delete resource "pods" in API group';
    for (const [text, events] of [
      ["a webhook said no", 2],
      [message, 1],
    ] as const) {
      const harness = new Harness();
      harness.interfere = ({ resource }) => {
        if (resource === "pods") throw answers(403, 1, text);
      };
      await carryOut(harness, [targetOf(harness, "delete"), targetOf(harness, "delete", "group-a-1")]);
      assert.equal(harness.events.length, events, text);
      const isMissing = events === 1;
      const expected = isMissing
        ? /^RightMissing group-a: Sluice lacks the right to delete pods: pods "p"/
        : /^DeleteRefused group-a: delete of group-a-[01] was refused/;
      for (const event of harness.events) assert.match(event, expected);
    }
  });

  test("only the reservation of a deletion refused at its only try is withdrawn, unless it renews another; siblings go in a second (R10)", async () => {
    for (const [action, attempts, isSole, withdrawn] of [
      ["delete", 1, true, true],
      ["delete", 2, true, false],
      ["delete", 1, false, false],
      ["repair", 1, true, false],
    ] as const) {
      const { uid } = podOf(new Harness());
      const made: Reservation = { statefulSet: "group-a", ordinal: 0, uid, by, stampMs: 1 };
      const sole = new Map(isSole ? [[uid, made]] : []);
      const { harness, requeueAfterMs } = await answered(action, answers(403, attempts), { sole });
      assert.equal(requeueAfterMs, withdrawn ? 1_000 : 7_000);
      assert.deepEqual([...harness.context.memoryOf(key).refusedOnce], withdrawn ? [[uid, made]] : []);
    }
  });

  test("a repair has an Event, and a failure to send it is reported and changes nothing", async () => {
    const harness = new Harness();
    const repair = async () => carryOut(harness, [targetOf(harness, "repair")]);
    harness.interfere = ({ resource }) => {
      if (resource === "events") throw refused(403);
    };
    assert.equal(await repair(), undefined);
    assert.deepEqual(harness.problems, ["no Event could be sent about group-a"]);
    harness.interfere = () => {};
    const other = targetOf(harness, "repair", "group-a-1");
    await carryOut(harness, [other]);
    assert.equal(harness.events.length, 1);
    assert.match(
      harness.events[0] ?? "",
      /^\w+ group-a: pod group-a-1 was in CrashLoopBackOff on revision \S+ and is replaced by \S+$/,
    );
    assert.deepEqual(
      harness.acts.map(({ result }) => result),
      ["done", "done"],
    );
  });

  test("a refusal about a zone of another owner has no Event, because the zone is no object that could have one", async () => {
    const harness = new Harness();
    harness.interfere = ({ resource }) => {
      if (resource === "pods") throw answers(403);
    };
    const act = actOn(targetOf(harness, "delete"));
    const workload = { kind: "OwnedZone", namespace, name: "zone-a" } as unknown as typeof act.workload;
    const run = { context: harness.context, by, key, deadlineMs: harness.cluster.monotonicMs() + 5_000 };
    const acts = [{ ...act, workload }];
    await played(harness.timeline, carryOutAll({ ...run, sole: new Map(), isOfLedger: () => false }, acts));
    assert.deepEqual(
      [harness.acts.map(({ zone, result }) => [zone, result]), harness.events],
      [[["zone-a", "refused"]], []],
    );
  });

  test("an error that is no answer of an API server is a bug, and is thrown", async () => {
    const harness = new Harness();
    harness.interfere = () => {
      throw new TypeError("a fault");
    };
    await assert.rejects(carryOut(harness, [targetOf(harness, "delete")]), TypeError);
    assert.deepEqual(harness.acts, []);
  });
});
