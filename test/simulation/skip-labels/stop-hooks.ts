/**
 * Stop hooks that wait until they see a label of their pod, or until its grace ends, which is a week; and the files in which
 * nodes show them the label: late, never, and not any more once the pod terminates.
 */
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { Timeline } from "../../fake-cluster/timeline.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Draw } from "../draw.ts";
import type { Plan } from "../plan.ts";

/** Where the pods are that have such hooks. */
export const hookedNamespace = "rabbits";
/** Says in a pod which label its hook looks at, and which value ends it; any will do where there is none. */
export const hookAnnotation = "hook.test/label";
export const weekSeconds = 604_800;

export interface StopHooksOptions {
  readonly timeline: Timeline;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly log: (who: string, what: string) => void;
}

interface Hook {
  /** How long after a change of its labels a pod sees it, in milliseconds; infinite where its file is never written again. */
  readonly lagMs: number;
  /** It ends only when it sees the label. */
  readonly isBlocking: boolean;
  isShown: boolean;
  /** Since when the pod has had the label, in milliseconds since the epoch. */
  labelledMs: number | undefined;
}

export class StopHooks {
  readonly #options: StopHooksOptions;
  readonly #hooks = new Map<string, Hook>();
  #world: World | undefined;

  constructor(options: StopHooksOptions) {
    this.#options = options;
  }

  watch(world: World): void {
    if (this.#options.plan.skipLabels === undefined) return;
    this.#world = world;
    world.store.onChange("pods", ({ previous, current, final }) => {
      if (final.metadata.namespace !== hookedNamespace) return;
      if (current === undefined) this.#hooks.delete(final.metadata.uid);
      else this.#changed(previous, current);
    });
  }

  /** How long the pod takes to end, once it is deleted; undefined for one that has no such hook. */
  endsAfterMs(pod: StoredPod): number | undefined {
    const hook = this.#hooks.get(pod.metadata.uid);
    if (hook === undefined) return undefined;
    const { draw, log } = this.#options;
    const isOver = !hasStarted(pod) || !hook.isBlocking || hook.isShown;
    const why = hook.isShown ? "sees the label" : isOver ? "need not wait" : "waits for the label, or for a week";
    log("hook", `of ${pod.metadata.name} ${why}`);
    return isOver ? draw.between(100, 3_000) : weekSeconds * 1_000;
  }

  /** True for a pod that has begun to end, and will not for a week. */
  isStuck(pod: StoredPod): boolean {
    const hook = this.#hooks.get(pod.metadata.uid);
    const isTerminating = pod.metadata.deletionTimestamp !== undefined;
    return isTerminating && hook !== undefined && hasStarted(pod) && hook.isBlocking && !hook.isShown;
  }

  /** A hook that would not end though it had all the time that its node takes: see {@link Hook.labelledMs}, and `lagMs`. */
  find({ metadata: { uid } }: StoredPod): Readonly<Hook> | undefined {
    return this.#hooks.get(uid);
  }

  #changed(previous: StoredPod | undefined, pod: StoredPod): void {
    const { timeline } = this.#options;
    const { uid, deletionTimestamp } = pod.metadata;
    const hook = this.#hooks.get(uid) ?? this.#open(pod);
    const isLabelled = hasLabel(pod);
    if (!isLabelled) hook.labelledMs = undefined;
    else hook.labelledMs ??= timeline.nowMs();
    if (deletionTimestamp !== undefined) return;
    // Its files are written when it starts.
    const starts = hasStarted(pod) && (previous === undefined || !hasStarted(previous));
    if (starts) hook.isShown = isLabelled;
    if (previous === undefined || !hasStarted(pod) || hasLabel(previous) === isLabelled) return;
    if (!Number.isFinite(hook.lagMs)) return;
    timeline.after(hook.lagMs, () => this.#write(hook, pod));
  }

  /** The node writes the labels of now into the file. It leaves that of a pod alone that terminates. */
  #write(hook: Hook, { metadata: { uid, ...key } }: StoredPod): void {
    const now = this.#world?.store.find("pods", key);
    if (now === undefined || now.metadata.uid !== uid || now.metadata.deletionTimestamp !== undefined) return;
    hook.isShown = hasLabel(now);
  }

  #open({ metadata }: StoredPod): Hook {
    const { draw, plan } = this.#options;
    const { frozen = 0, lagMs = 0, blocking = 0 } = plan.skipLabels ?? {};
    const hook: Hook = {
      lagMs: draw.chance(frozen) ? Number.POSITIVE_INFINITY : draw.between(0, lagMs),
      isBlocking: draw.chance(blocking),
      isShown: false,
      labelledMs: undefined,
    };
    this.#hooks.set(metadata.uid, hook);
    return hook;
  }
}

export function hasStarted({ status }: StoredPod): boolean {
  return status.phase !== undefined && status.phase !== "Pending";
}

/** True for a pod that has the label which its hook looks for. */
export function hasLabel({ metadata }: StoredPod): boolean {
  const [key = "", value] = (metadata.annotations?.[hookAnnotation] ?? "").split("=");
  const text = metadata.labels?.[key];
  return value === undefined ? text !== undefined && text !== "" : text === value;
}
