/** Cases of the end-to-end tests of FoundationDB's operator, as stories of a group of StatefulSets. */
import { keepLedgers } from "../../../functions/keep-ledgers/function.ts";
import { kubeletAnnotations } from "../../fake-cluster/kubelet.ts";
import type { Accident } from "./accident.ts";
import {
  collectingLedgers,
  countingWhatIsDown,
  limitsOfTheWanted,
  reservingFirst,
  unwantedIsSettled,
} from "./removals.ts";
import { group, namespace } from "./scene.ts";

/** No function rolls this group. */
const quiet = { functions: [keepLedgers] };

/** A pod goes for maintenance: what may its own zone and the others lose meanwhile? */
const maintenance: readonly Accident[] = [
  {
    id: "F4",
    source: "maintenance, and the pod comes back in time",
    promise: "the next zone has its turn as soon as the pod is back",
    start: quiet,
    async story(scene) {
      await scene.evict("db-a-0");
      scene.holds("not before", (await scene.evict("db-b-0")).guard === "zones-down");
      await scene.goOn(5);
      scene.holds("then", (await scene.evict("db-b-0")).allowed);
    },
    without: [countingWhatIsDown],
  },
  {
    id: "F4",
    source: "maintenance, and the pod comes back late",
    promise: "the pod counts against the budget for as long as it is away, however old its reservation is",
    start: quiet,
    async story(scene) {
      scene.controllerDelayMs = 600_000;
      await scene.evict("db-a-0");
      await scene.goOn(590);
      for (const pod of ["db-a-1", "db-b-0", "db-c-0"]) scene.holds(`${pod} stays`, !(await scene.evict(pod)).allowed);
      await scene.goOn(20);
      scene.holds("then another may go", (await scene.evict("db-b-0")).allowed);
    },
    without: [countingWhatIsDown],
  },
  {
    id: "F4",
    source: "maintenance, and the pod never comes back",
    promise: "nothing else goes, and each refusal says why",
    start: quiet,
    async story(scene) {
      scene.world.changeTemplate({ namespace, name: "db-a" }, "app:broken-Unready");
      await scene.evict("db-a-0");
      for (let hour = 0; hour < 3; hour++) {
        await scene.goOn(3_600);
        scene.holds("its own zone waits", (await scene.evict("db-a-1")).guard === "zone-budget");
        scene.holds("the others wait", (await scene.evict("db-b-0")).guard === "zones-down");
      }
      scene.holds("one pod is down", scene.worst.zones === 1 && scene.worst.pods === 1);
    },
    without: [countingWhatIsDown],
  },
  {
    id: "F4",
    source: "maintenance, and another zone fails meanwhile",
    promise:
      "while two zones are not whole, no healthy pod goes; when the second is whole, the pod of the first may go",
    start: quiet,
    async story(scene) {
      scene.world.changeTemplate({ namespace, name: "db-a" }, "app:broken-Unready");
      await scene.evict("db-a-0");
      await scene.goOn(5);
      scene.world.kubelet.breakPod({ namespace, name: "db-b-1" });
      await scene.goOn(5);
      for (const pod of ["db-a-1", "db-b-0", "db-c-0"])
        scene.holds(`${pod} stays`, (await scene.evict(pod)).guard === "zones-down");
      scene.world.kubelet.healPod({ namespace, name: "db-b-1" });
      await scene.goOn(5);
      scene.holds("the pod that is down already may go", (await scene.evict("db-a-0")).allowed);
    },
    without: [countingWhatIsDown],
  },
  {
    id: "F4",
    source: "maintenance, and the count of pods changes meanwhile",
    promise:
      "no zone waits for a pod that its StatefulSet no longer wants, and a pod that it wants again is down until it is ready",
    start: quiet,
    async story(scene) {
      const zone = { namespace, name: "db-a" };
      scene.controllerDelayMs = 60_000;
      await scene.evict("db-a-2");
      await scene.goOn(5);
      scene.world.scale(zone, 2);
      await scene.goOn(120);
      scene.holds("the next zone has its turn", (await scene.evict("db-b-0", { afterMs: 1 / 0 })).allowed);
      await scene.goOn(300);
      scene.world.scale(zone, 4);
      await scene.goOn(1);
      scene.holds("not while pods are missing", (await scene.evict("db-b-0")).guard === "zones-down");
    },
    without: [unwantedIsSettled, countingWhatIsDown],
  },
];

export const fromTests: readonly Accident[] = [
  {
    id: "F1",
    source: "a pod is stuck in Terminating while others are to be replaced",
    promise:
      "the pod counts against the budget until it is gone; the verdict says so and since when, and the ledger names it",
    start: {},
    async story(scene) {
      const stuck = { [kubeletAnnotations.goneAfterMs]: "1000000000" };
      scene.world.annotate({ namespace, name: "db-a-0" }, stuck, "pods");
      scene.roll();
      await scene.goOn(900);
      scene.holds("one pod is down", scene.worst.zones === 1 && scene.worst.pods === 1);
      const { guard = "", message = "" } = scene.reported.at(-1) ?? {};
      scene.holds("the guard is that of the budget", guard === "budget" && message.includes("1 terminating"));
      const { annotations = {} } = scene.world.store.get("leases", { namespace, name: `sluice-${group}` }).metadata;
      const { since } = JSON.parse(annotations["sluice.dev/verdicts"] ?? "{}")["advance-zone-rollout"] ?? {};
      scene.holds("since it began", scene.world.timeline.nowMs() - Number(since) > 880_000);
      scene.holds("the ledger names the pod", /db-a.*\b0\b/.test(annotations["sluice.dev/reservations"] ?? ""));
    },
    without: [limitsOfTheWanted],
  },
  {
    id: "F3",
    source: "a pod is not scheduled while another one is replaced",
    promise: "a Pending pod that is also reserved counts once: the rest of the budget may go, and no more",
    start: { ...quiet, budget: { maxUnavailable: 2 } },
    async story(scene) {
      scene.world.changeTemplate({ namespace, name: "db-a" }, "app:broken-Unschedulable");
      await scene.evict("db-a-2");
      await scene.goOn(60);
      scene.holds("one more may go", (await scene.evict("db-a-1")).allowed);
      await scene.goOn(60);
      scene.holds("and not two", (await scene.evict("db-a-0")).guard === "zone-budget");
    },
    without: [countingWhatIsDown],
  },
  ...maintenance,
  {
    id: "F8",
    source: "one node is tainted, and drained",
    promise: "its pods go, one zone at a time",
    start: { ...quiet, nodesPerZone: 1, webhooks: ["fresh", "fresh"] },
    async story(scene) {
      const [first] = scene.pods();
      const onNode = scene.pods().filter(({ spec }) => spec.nodeName === first?.spec.nodeName);
      await scene.drain(onNode, 300);
      scene.holds(
        "all of them",
        onNode.every(({ metadata: { name, uid } }) => scene.uid(name) !== uid),
      );
      scene.holds("one at a time", scene.worst.zones === 1 && scene.worst.pods === 1);
    },
    without: [reservingFirst],
  },
  {
    id: "F8",
    source: "every node is tainted, and drained, while a rollout is under way",
    promise: "one zone at a time, although both the drain and the rollout take pods, and both end",
    start: { webhooks: ["fresh", "fresh"] },
    async story(scene) {
      const before = scene.pods();
      scene.roll();
      await scene.drain(before, 900);
      await scene.goOn(300);
      scene.holds("one zone at a time", scene.worst.zones === 1);
      scene.holds("one pod at a time", scene.worst.pods === 1);
      scene.holds("the rollout ends", scene.isRolled());
    },
    without: [reservingFirst],
  },
  {
    id: "F9",
    source: "replacements stay Pending",
    promise: "the first pod uses up the budget, and no other goes; the next revision mends it and is rolled to the end",
    start: {},
    async story(scene) {
      scene.roll("app:broken-Unschedulable");
      await scene.goOn(900);
      scene.holds("one pod is down", scene.worst.zones === 1 && scene.worst.pods === 1);
      scene.roll("app:3");
      await scene.goOn(300);
      scene.holds("the next revision goes to the end", scene.isRolled());
      scene.holds("one at a time", scene.worst.zones === 1 && scene.worst.pods === 1);
    },
    without: [countingWhatIsDown],
  },
  {
    id: "F11",
    source: "more pods are outdated than the budget allows, and a quota refuses replacements",
    promise:
      "no more pods are down than the budget allows, the guard says what is missing, and the rollout goes on when the quota is raised",
    start: { replicas: 5, maxUnavailable: 2, budget: { maxUnavailable: 2 } },
    async story(scene) {
      scene.controllerDelayMs = 600_000;
      scene.roll();
      await scene.goOn(590);
      // The StatefulSet controller also writes the status, so Sluice learns of the new revision only after the controller has
      // run.
      scene.holds("nothing goes before it is known what for", scene.worst.pods === 0);
      await scene.goOn(500);
      scene.holds("two of five are down", scene.worst.zones === 1 && scene.worst.pods === 2);
      const { guard = "", message = "" } = scene.reported.at(-1) ?? {};
      scene.holds("the guard says that they are missing", guard === "budget" && message.includes("2 missing"));
      scene.controllerDelayMs = 5;
      await scene.goOn(900);
      scene.holds("then it goes on to the end", scene.isRolled());
      scene.holds("within the budget", scene.worst.zones === 1 && scene.worst.pods === 2);
    },
    without: [countingWhatIsDown],
  },
  {
    id: "F13",
    source: "a cluster is made and deleted many times",
    promise: "no ledger is left behind, and no new cluster inherits one",
    start: { zones: [], functions: [keepLedgers] },
    async story(scene) {
      const { world } = scene;
      const ledgers = () => world.store.list("leases", { namespace }).items.map(({ metadata }) => metadata.uid);
      const seen = new Set<string>();
      for (let time = 0; time < 5; time++) {
        world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 1 });
        await scene.goOn(60);
        const [uid = ""] = ledgers();
        scene.holds("it has one of its own", ledgers().length === 1 && !seen.has(uid));
        seen.add(uid);
        for (const { metadata } of world.store.list("statefulsets", { namespace }).items)
          world.removeStatefulSet(metadata);
        await scene.goOn(600);
        scene.holds("none is left", ledgers().length === 0);
      }
    },
    without: [collectingLedgers],
  },
];
