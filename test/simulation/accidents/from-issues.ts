/** Accidents that users of operators and of node tools reported in public threads. */
import { keepLedgers } from "../../../functions/keep-ledgers/function.ts";
import { makeClaim } from "../../../functions/shared/ledger/claim.ts";
import type { Accident } from "./accident.ts";
import {
  countingClaims,
  limitsOfTheWanted,
  missingIsDown,
  numbersOfBudgets,
  oneLedger,
  pinningTheUid,
  reservingFirst,
  settledThrough,
  sparingReplacements,
  whoReserved,
} from "./removals.ts";
import { group, namespace, type Scene } from "./scene.ts";

const ledger = { namespace, name: `sluice-${group}` };
/** No function rolls this group. */
const quiet = { functions: [keepLedgers] };

/** Claims a pod in the ledger, as a function does that empties the pod before it scales down (rule R18). */
function claimScaleDown({ world }: Scene, zone: string, ordinal: number): void {
  const set = world.store.get("statefulsets", { namespace, name: zone }).metadata;
  const { line } = makeClaim({
    id: "scale-down-1",
    kind: "scale-down",
    zone,
    members: [{ first: ordinal, last: ordinal }],
    uids: { [zone]: set.uid },
    by: "prepare-downscale",
    stampMs: world.timeline.nowMs(),
    phase: "preparing",
    terms: "asked",
  });
  world.annotate(ledger, { "sluice.dev/claims": line }, "leases");
}

export const fromIssues: readonly Accident[] = [
  {
    id: "I1",
    source:
      "cozystack/etcd-operator#351: a node rotation took five voters to two, and no single eviction violated the budget",
    promise:
      "a percentage counts wanted pods, and terminating pods are down: at 40 % of five pods a rotation takes no third one",
    start: { ...quiet, zones: ["a", "b"], replicas: 5, budget: { maxUnavailablePercentage: 40 } },
    async story(scene) {
      // New nodes are slow to come: the replacement of an evicted pod takes half an hour.
      scene.controllerDelayMs = 1_800_000;
      for (const ordinal of [4, 3, 2, 1, 0]) {
        await scene.evict(`db-a-${ordinal}`);
        await scene.goOn(60);
      }
      scene.holds("two of five may be away", scene.worst.pods >= 2);
      scene.holds("and no more", scene.worst.pods <= 2);
    },
    without: [limitsOfTheWanted],
  },
  {
    id: "I3",
    source:
      "opensearch-project/opensearch-k8s-operator#1471: a cache that was stale after a DELETE allowed a second disruption",
    promise: "a view that is older than the last replacement lets no second pod go",
    start: { ...quiet, webhooks: ["fresh", "stale"] },
    async story(scene) {
      await scene.goOn(31);
      await scene.evict("db-a-0");
      await scene.goOn(5);
      await scene.evict("db-a-0");
      const { allowed } = await scene.evict("db-b-0", { of: 1 });
      await scene.goOn(1);
      scene.holds("the second is refused", !allowed);
      scene.holds("one zone at a time", scene.worst.zones === 1);
    },
    without: [settledThrough],
  },
  {
    id: "I4",
    source: "elastic/cloud-on-k8s#9732: a rolling upgrade restarted a pod that a downscale was still emptying",
    promise: "no rollout and no eviction takes a pod that a scale-down has claimed, and its zone counts as not whole",
    start: {},
    async story(scene) {
      const uid = scene.uid("db-a-2");
      claimScaleDown(scene, "db-a", 2);
      scene.roll();
      await scene.goOn(60);
      const answer = await scene.evict("db-a-2");
      scene.holds("the eviction is refused", answer.guard === "zone-scaling-down");
      await scene.goOn(5);
      scene.holds("the pod is as it was", scene.uid("db-a-2") === uid);
      scene.holds("nothing else goes", scene.worst.pods === 0);
      scene.holds("the rollout says why", scene.reported.at(-1)?.guard === "zone-scaling-down");
    },
    without: [countingClaims],
  },
  {
    id: "I5",
    source:
      "cloudnative-pg/cloudnative-pg#10566: a single replica under a budget that allows none, and an upgrade of nodes that failed on it",
    promise:
      "what a PodDisruptionBudget can never allow is denied at once, with its numbers, and does not wait for a budget",
    start: {
      zones: ["a", "b"],
      replicas: 1,
      disruptionBudget: {
        spec: { minAvailable: 2 },
        status: { observedGeneration: 9, disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 2 },
      },
    },
    async story(scene) {
      const answer = await scene.evict("db-a-0");
      scene.holds("the guard says never", answer.guard === "never-possible");
      scene.holds("with numbers", !answer.allowed && /wants 2 of its 2 pods healthy/.test(answer.message));
      const budget = { namespace, name: "budget" };
      scene.world.store.patch("zoneawarepoddisruptionbudgets", budget, { spec: { maxUnavailable: 0 } });
      const none = await scene.evict("db-a-0");
      scene.holds("so does a budget of nothing, at which a drain gives up", none.guard === "never-possible");
      scene.holds("with the code of rollout-operator", !none.allowed && none.code === 403);
    },
    without: [numbersOfBudgets],
  },
  {
    id: "I6",
    source: "kubereboot/kured#1169: a drain that kept names evicted the pod that had come back, again and again",
    promise:
      "a late eviction takes the pod that the webhook decided about, or none; an eviction by uid ends when that pod is gone",
    start: quiet,
    async story(scene) {
      const uid = scene.uid("db-a-0") ?? "";
      await scene.evict("db-a-0", { afterMs: 20_000 });
      await scene.evict("db-a-0");
      await scene.goOn(10);
      const back = scene.uid("db-a-0");
      await scene.goOn(30);
      scene.holds("the pod came back", back !== undefined && back !== uid);
      scene.holds("it is the one that stands", scene.uid("db-a-0") === back);
      const again = await scene.evict("db-a-0", { uid });
      scene.holds("a drain by uid is told 409, which is its end", !again.allowed && again.code === 409);
    },
    without: [pinningTheUid],
  },
  {
    id: "I6",
    source: "the same, behind a webhook that cannot pin a uid",
    promise: "the replacement of an evicted pod stays until it is ready",
    start: quiet,
    async story(scene) {
      scene.roll("app:broken-Unready");
      await scene.evict("db-a-0", { isPinned: false });
      await scene.goOn(10);
      const back = scene.uid("db-a-0");
      const answer = await scene.evict("db-a-0", { isPinned: false });
      await scene.goOn(10);
      scene.holds("the next one is told to wait", answer.guard === "replacement-reserved");
      scene.holds("it stands", back !== undefined && scene.uid("db-a-0") === back);
    },
    without: [sparingReplacements],
  },
  {
    id: "I7",
    source:
      "opensearch-project/opensearch-k8s-operator#650: three masters in three StatefulSets of one pod were restarted at once",
    promise: "StatefulSets of one pod are rolled one after the other, to the end",
    start: { replicas: 1 },
    async story(scene) {
      scene.roll();
      await scene.goOn(120);
      scene.holds("one at a time", scene.worst.zones === 1);
      scene.holds("to the end", scene.isRolled());
    },
    without: [oneLedger],
  },
  {
    id: "I9",
    source: "oracle/karpenter-provider-oci#9: all nodes drifted at once, and every StatefulSet was torn in every zone",
    promise: "one zone at a time, however many nodes are drained together, and each drain ends",
    start: { ...quiet, webhooks: ["fresh", "fresh"] },
    async story(scene) {
      const before = scene.pods();
      await scene.drain(before, 600);
      scene.holds("one zone at a time", scene.worst.zones === 1);
      scene.holds("one pod at a time", scene.worst.pods === 1);
      const stand = before.filter(({ metadata: { name, uid } }) => scene.uid(name) === uid);
      scene.holds("every drain ends", stand.length === 0);
    },
    without: [reservingFirst],
  },
  {
    id: "I10",
    source:
      "aws/zone-aware-controllers-for-k8s#28: the replacement in one zone was not made yet when the next zone was asked",
    promise: "a pod that is not there yet is down, also when a user deleted it: no other zone is touched",
    start: quiet,
    async story(scene) {
      scene.controllerDelayMs = 60_000;
      scene.world.store.delete("pods", { namespace, name: "db-a-2" }, {});
      await scene.goOn(5);
      const answer = await scene.evict("db-b-0");
      scene.holds("zone b waits", answer.guard === "zones-down");
      scene.controllerDelayMs = 5;
      await scene.goOn(90);
      scene.holds("until it is back", (await scene.evict("db-b-0")).allowed);
    },
    without: [missingIsDown],
  },
  {
    id: "I11",
    source:
      "opensearch-project/opensearch-k8s-operator#312: a pod that was drained was mistaken for one of the rollout",
    promise: "a rollout does not carry out the reservation of an eviction, and goes on when that has lapsed",
    start: {},
    async story(scene) {
      const uid = scene.uid("db-a-1");
      // Sluice allows the eviction, but the client has gone before the API server carries it out.
      await scene.evict("db-a-1", { afterMs: Number.POSITIVE_INFINITY });
      scene.roll();
      await scene.goOn(120);
      scene.holds("the pod stands", scene.uid("db-a-1") === uid);
      scene.holds("the rollout counts it, and waits", scene.reported.at(-1)?.guard === "budget");
      await scene.goOn(300);
      scene.holds("and goes on when the API server can carry it out no more", scene.isRolled());
    },
    without: [whoReserved],
  },
];
