/**
 * The shipped questions to pods, over messages that are lost or late. The pods say whether the others can do without them, as
 * brokers with quorums do. A checker watches their quorum (Q1).
 */
import type { PodHttp } from "../../../functions/shared/http/pod-http.ts";
import type { ObjectKey, Preconditions, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { PodReply } from "../../fake-cluster/pod-http.ts";
import type { World } from "../../fake-cluster/world.ts";
import { isUp, setNameOf } from "../../support/checkers/raw.ts";
import type { Caller, Checker } from "../checker.ts";
import type { Connection } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { createSimulatedPods } from "../simulated-pods.ts";
import { quorumOf, upIn } from "./brokers.ts";

/** A wrong answer that the pods of a zone give for a while. */
interface Lie {
  readonly status: 200 | 503;
  readonly fromMs: number;
  untilMs: number;
}

/** The last lie of each zone. */
const lies = new WeakMap<World, Map<string, Lie>>();

/** Makes the StatefulSets of a seed ask their pods, which lie at times. */
export function askPods(run: SeedRun): void {
  const { world, namespace, draw } = run;
  if (run.plan.claims?.lies === true) lieNowAndThen(run);
  for (const { metadata } of world.store.list("statefulsets", { namespace }).items) {
    world.annotate(metadata as ObjectKey, {
      "sluice.dev/health-question": "http",
      "sluice.dev/health-url": "http://:8080/critical",
      ...(draw.chance(0.3) ? { "sluice.dev/health-unknown": "go" } : {}),
    });
  }
}

/** For up to half a minute the pods of a zone answer that all is well, or that nothing is. */
function lieNowAndThen(run: SeedRun): void {
  const { world, namespace, draw, isFaulty, log } = run;
  const { timeline, store } = world;
  const reported = new Map<string, Lie>();
  lies.set(world, reported);
  const next = () =>
    timeline.after(draw.between(5_000, 60_000), () => {
      const zones = store.list("statefulsets", { namespace }).items.map(({ metadata }) => metadata.name);
      if (!isFaulty() || zones.length === 0) return;
      const lie: Lie = {
        status: draw.pick([200, 503]),
        fromMs: timeline.nowMs(),
        untilMs: timeline.nowMs() + draw.between(2_000, 30_000),
      };
      const zone = draw.pick(zones);
      next();
      // The consequences of the last lie must be over first.
      if (timeline.nowMs() < (reported.get(zone)?.untilMs ?? 0) + askedWithinMs) return;
      log("pods", `of ${zone} say ${lie.status} for ${(lie.untilMs - lie.fromMs).toFixed(0)} ms, whatever is so`);
      reported.set(zone, lie);
    });
  next();
}

/** The HTTP client to pods for a process that asks; undefined in a seed without questions. */
export function podsOf(
  run: SeedRun,
  { process, cluster }: Pick<Connection, "process" | "cluster">,
): { pods?: PodHttp } {
  const { plan, world, draw, onResume, isFaulty, wrappers, namespace } = run;
  if (plan.claims?.asks !== "shipped") return {};
  const pods = createSimulatedPods({
    world,
    draw,
    process,
    cluster,
    onResume,
    faults: () => {
      const { latencyMs } = plan.faults;
      return isFaulty()
        ? { latencyMs, lose: 0.03, late: 0.1, lateMs: 6_000 }
        : { latencyMs, lose: 0, late: 0, lateMs: 0 };
    },
    answer: ({ metadata: { name } }): PodReply => {
      if (isFaulty() && draw.chance(0.03)) return draw.pick<PodReply>(["break", "hang", { status: 500 }]);
      const lie = lies.get(world)?.get(setNameOf(name));
      if (isFaulty() && lie !== undefined && world.timeline.nowMs() < lie.untilMs) return { status: lie.status };
      const others = upIn(world, namespace, setNameOf(name)).filter((other) => other !== name);
      return { status: others.length < quorumOf(world, namespace, setNameOf(name)) ? 503 : 200 };
    },
  });
  return { pods: wrappers.pods?.(pods) ?? pods };
}

/**
 * What had lasted longer than this was also true when the question was asked, because the process acts soon after the answer.
 */
const askedWithinMs = 12_000;
/** A condition gives the second in which it changed, and no more. */
const wholeSecondMs = 1_000;

/**
 * Q1: no pod that was asked goes while others are known to be down, if its StatefulSet then loses its majority. While pods
 * lie, only the pods that were taken on purpose are known to be down: no answer permits a second one.
 */
export class QuorumChecker implements Checker {
  readonly invariants = ["Q1"];
  readonly #world: World;
  readonly #namespace: string;
  readonly #violate: SeedRun["violate"];
  /** Names of the pods that were taken on purpose and are not back. */
  readonly #taken = new Set<string>();

  constructor({ world, namespace, violate }: SeedRun) {
    this.#world = world;
    this.#namespace = namespace;
    this.#violate = violate;
    world.store.onChange("pods", ({ current }) => {
      if (current !== undefined && isUp(current)) this.#taken.delete(current.metadata.name);
    });
  }

  onDeletionArrived(_: Caller, resource: Resource, key: ObjectKey, { uid, resourceVersion }: Preconditions): void {
    // Sluice replaces a broken pod, at the revision that it has seen, without asking it (rule R13).
    if (resource === "pods" && resourceVersion === undefined) this.#take(key, uid);
  }

  onEvicted(key: ObjectKey, uid: string | undefined): void {
    this.#take(key, uid);
  }

  #take({ namespace, name }: ObjectKey, uid: string | undefined): void {
    const pod = this.#world.store.find("pods", { namespace, name });
    const isOther = pod !== undefined && uid !== undefined && pod.metadata.uid !== uid;
    if (namespace !== this.#namespace || pod === undefined || isOther || !isUp(pod)) return;
    const zone = setNameOf(name);
    const set = this.#world.store.find("statefulsets", { namespace, name: zone });
    if (set?.metadata.annotations?.["sluice.dev/health-question"] !== undefined) this.#check(zone, name);
    this.#taken.add(name);
  }

  #check(zone: string, name: string): void {
    const quorum = quorumOf(this.#world, this.#namespace, zone);
    const up = new Set(upIn(this.#world, this.#namespace, zone));
    const { spec } = this.#world.store.get("statefulsets", { namespace: this.#namespace, name: zone });
    const others = Array.from({ length: spec.replicas ?? 0 }, (_, ordinal) => `${zone}-${ordinal}`);
    // Our processes cannot know what has only just broken. They know what they have taken, and what has been down for long.
    const isDeceived = this.#isDeceived(zone);
    const isKnown = (other: string) => (isDeceived ? this.#taken.has(other) : this.#isKnown(other));
    const known = others.filter((other) => other !== name && !up.has(other) && isKnown(other));
    if (known.length === 0 || others.length - 1 - known.length >= quorum) return;
    this.#violate("Q1", `${name} goes while ${known.join(", ")} is down, and ${zone} needs ${quorum} pods`);
  }

  /** True if the zone's pods may have lied to the question that this deletion rests on. */
  #isDeceived(zone: string): boolean {
    const lie = lies.get(this.#world)?.get(zone);
    return lie?.status === 200 && this.#world.timeline.nowMs() < lie.untilMs + askedWithinMs;
  }

  #isKnown(name: string): boolean {
    if (this.#taken.has(name)) return true;
    const pod = this.#world.store.find("pods", { namespace: this.#namespace, name });
    return pod !== undefined && this.#downForMs(pod) > askedWithinMs + wholeSecondMs;
  }

  #downForMs({ status }: StoredPod): number {
    const ready = status.conditions?.find(({ type }) => type === "Ready");
    return this.#world.timeline.nowMs() - Date.parse(ready?.lastTransitionTime ?? "");
  }
}
