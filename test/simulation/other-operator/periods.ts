/** When pods of rollout-operator were there, by the true clock and by objects alone: no code of the product tells it. */
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";

/** The time in which one pod was one of rollout-operator. */
export interface Period {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly fromMs: number;
  /** When it had ended, was gone, or had another image; undefined while it runs. */
  untilMs: number | undefined;
}

const imageOfOperator = /(^|\/)rollout-operator(:[^/]*)?(@.*)?$/;

/** True for a pod of rollout-operator that has not ended. */
export function isOperatorPod({ metadata: { labels = {} }, spec, status }: StoredPod): boolean {
  const isNamed = ["name", "app.kubernetes.io/name"].some((key) => labels[key] === "rollout-operator");
  const hasEnded = status.phase === "Succeeded" || status.phase === "Failed";
  return isNamed && !hasEnded && spec.containers.some(({ image }) => imageOfOperator.test(image));
}

/** True for a pod of its Deployment, which may have ended, or have another image. */
export function isOfOperator({ metadata }: StoredPod): boolean {
  return metadata.name.startsWith("rollout-operator-");
}

export class Periods {
  readonly #world: World;
  readonly #all = new Map<string, Period>();

  constructor(world: World) {
    this.#world = world;
    world.store.onChange("pods", ({ current, final: { metadata } }) =>
      this.#note(current, { ...metadata, namespace: metadata.namespace ?? "" }),
    );
  }

  /** All pods that ever were pods of rollout-operator. */
  all(): IterableIterator<Period> {
    return this.#all.values();
  }

  /** The period of a pod; undefined for a pod that never was one of rollout-operator. */
  of(uid: string): Period | undefined {
    return this.#all.get(uid);
  }

  #note(current: StoredPod | undefined, { uid, namespace, name }: Pick<Period, "uid" | "namespace" | "name">): void {
    const known = this.#all.get(uid);
    const nowMs = this.#world.timeline.nowMs();
    if (current !== undefined && isOperatorPod(current)) {
      if (known === undefined) this.#all.set(uid, { uid, namespace, name, fromMs: nowMs, untilMs: undefined });
    } else if (known !== undefined) {
      known.untilMs ??= nowMs;
    }
  }
}
