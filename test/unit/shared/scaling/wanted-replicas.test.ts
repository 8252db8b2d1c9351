/** Spec rollout-operator 3.1 and 3.2, rule by rule. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type SizeBlocked, wantedReplicas } from "../../../../functions/shared/scaling/wanted-replicas.ts";
import { parseStatefulSet, type StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";

const nowMs = Date.parse("2026-01-31T12:00:00Z");

interface Given {
  readonly replicas?: number;
  readonly ready?: number;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly deleted?: true;
}

function set(name: string, { replicas = 3, ready = replicas, annotations = {}, labels = {}, deleted }: Given = {}) {
  const named = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([key, text]) => [`grafana.com/${key}`, text]));
  return parseStatefulSet({
    metadata: {
      name,
      namespace: "ns",
      uid: `uid of ${name}`,
      resourceVersion: "1",
      labels: { "rollout-group": "db", ...named(labels) },
      annotations: named(annotations),
      ...(deleted ? { deletionTimestamp: "2026-01-31T11:00:00Z" } : {}),
    },
    spec: { replicas, ordinals: { start: 5 } },
    status: { readyReplicas: ready },
  });
}

const follows = (leader: string, more: Readonly<Record<string, string>> = {}) => ({
  "rollout-downscale-leader": leader,
  ...more,
});
const mirrors = {
  "rollout-mirror-replicas-from-resource-name": "t",
  "rollout-mirror-replicas-from-resource-kind": "ReplicaTemplate",
};

function wanted(statefulSet: StatefulSet, others: readonly StatefulSet[] = [], mirrored?: number | SizeBlocked) {
  const found = wantedReplicas({ statefulSet, members: [statefulSet, ...others], mirrored, nowMs });
  return typeof found === "object" ? found.guard : found;
}

test("3.1.1: without a leader or a mirrored object a StatefulSet keeps its users' size, even with a forced one", () => {
  assert.equal(wanted(set("a")), undefined);
  assert.equal(wanted(set("a", { annotations: { "rollout-force-replicas": "7" } })), undefined);
  assert.equal(wanted(set("a", { annotations: follows("b"), deleted: true }), [set("b")]), undefined);
});

test("3.1.1: a leader that is missing from the group blocks only its own follower", () => {
  assert.equal(wanted(set("a", { annotations: follows("absent") }), [set("b")]), "leader-missing");
});

test("a circle of leaders blocks each of its members and each of their followers", () => {
  const [a, b] = [set("a", { annotations: follows("b") }), set("b", { annotations: follows("a") })];
  assert.equal(wanted(a, [b]), "leader-circle");
  assert.equal(wanted(b, [a]), "leader-circle");
  assert.equal(wanted(set("c", { annotations: follows("a") }), [a, b]), "leader-circle");
  assert.equal(wanted(set("a", { annotations: follows("a") })), "leader-circle");
});

test("followers make a chain: c follows b, and b follows a", () => {
  const b = set("b", { replicas: 5, annotations: follows("a") });
  assert.equal(wanted(set("c", { annotations: follows("b") }), [set("a", { replicas: 9 }), b]), 5);
});

test("3.1.2: a forced size counts at once, without the leader's readiness or the time between zones", () => {
  const annotations = follows("a", { "rollout-force-replicas": "1", "rollout-upscale-only-when-leader-ready": "true" });
  const late = set("a", { replicas: 9, ready: 0, annotations: { "last-downscale": "2026-01-31T11:59:00Z" } });
  assert.equal(wanted(set("b", { annotations }), [late]), 1);
  const wrong = follows("a", { "rollout-force-replicas": "-1" });
  assert.equal(wanted(set("b", { annotations: wrong }), [set("a", { replicas: 4 })]), 4);
});

test("3.1.3: a follower gets more replicas at once, or only when its leader is ready if an annotation says so", () => {
  const leader = set("a", { replicas: 5, ready: 4 });
  assert.equal(wanted(set("b", { annotations: follows("a") }), [leader]), 5);
  const waits = follows("a", { "rollout-upscale-only-when-leader-ready": "true" });
  assert.equal(wanted(set("b", { annotations: waits }), [leader]), "leader-not-ready");
  assert.equal(wanted(set("b", { annotations: waits }), [set("a", { replicas: 5 })]), 5);
  const other = follows("a", { "rollout-upscale-only-when-leader-ready": "yes" });
  assert.equal(wanted(set("b", { annotations: other }), [leader]), 5);
});

test("3.1.4: a follower gets fewer replicas when the newest downscale of another zone is old enough by its own label", () => {
  const at = (minTime: string | undefined, ...last: string[]) => {
    const labels = minTime === undefined ? {} : { "min-time-between-zones-downscale": minTime };
    // A zone's own last downscale is not read.
    const own = { "last-downscale": "2026-01-31T11:59:59Z" };
    const [first = "", ...rest] = last;
    const leader = set("a", { replicas: 1, ready: 0, annotations: first === "" ? {} : { "last-downscale": first } });
    const others = rest.map((time, index) => set(`c${index}`, { annotations: { "last-downscale": time } }));
    return wanted(set("b", { labels, annotations: follows("a", own) }), [leader, ...others]);
  };
  assert.equal(at(undefined), 1);
  assert.equal(at("1h", "2026-01-31T10:59:59Z"), 1);
  assert.equal(at("1h", "2026-01-31T11:00:00Z"), "min-time-between-zones");
  assert.equal(at("1h", "2026-01-31T09:00:00Z", "2026-01-31T11:30:00Z"), "min-time-between-zones");
  assert.equal(at("1h", "2026-02-01T00:00:00Z"), "min-time-between-zones");
  assert.equal(at(undefined, "2026-01-31T09:00:00Z"), "min-time-missing");
  assert.equal(at("1d", "2026-01-31T09:00:00Z"), "min-time-missing");
  assert.equal(at("1h", "yesterday"), "last-downscale-malformed");
});

test("a wait for a time gives its end, and the group is read again then", () => {
  const leader = set("a", { replicas: 1, annotations: { "last-downscale": "2026-01-31T11:30:00Z" } });
  const labels = { "min-time-between-zones-downscale": "1h" };
  const statefulSet = set("b", { labels, annotations: follows("a") });
  const blocked = wantedReplicas({ statefulSet, members: [statefulSet, leader], mirrored: undefined, nowMs });
  assert.deepEqual(blocked, {
    guard: "min-time-between-zones",
    message: "b may have 1 replicas from 2026-01-31T12:30:00Z on: a was made smaller at 2026-01-31T11:30:00Z",
    requeueAfterMs: 1_800_001,
    later: 1,
  });
});

test("3.1.5: an equal size stays, and 0 is a size", () => {
  assert.equal(wanted(set("b", { annotations: follows("a") }), [set("a")]), 3);
  assert.equal(wanted(set("b", { annotations: follows("a") }), [set("a", { replicas: 0 })]), 0);
});

test("3.2: the mirrored object sets the size; a forced size overrides it, and a leader overrides both", () => {
  assert.equal(wanted(set("a", { annotations: mirrors }), [], 8), 8);
  assert.equal(
    wanted(set("a", { annotations: mirrors }), [], { guard: "mirror-missing", message: "" }),
    "mirror-missing",
  );
  assert.equal(wanted(set("a", { annotations: { ...mirrors, "rollout-force-replicas": "2" } }), [], 8), 2);
  assert.equal(wanted(set("a", { annotations: { ...mirrors, ...follows("b") } }), [set("b", { replicas: 6 })], 8), 6);
});
