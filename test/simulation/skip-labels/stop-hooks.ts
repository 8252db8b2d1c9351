/**
 * Stop hooks that wait until they see a label of their pod, or until its grace period ends, which is a week. They read the
 * label from a file that nodes write late, or never, and no longer once the pod terminates.
 */
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { Timeline } from "../../fake-cluster/timeline.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Draw } from "../draw.ts";
import type { Plan } from "../plan.ts";

/** Namespace of the pods with such hooks. */
export const hookedNamespace = "rabbits";
/** Annotation of a pod: the label that its hook waits for, as KEY=VALUE, or as KEY if any value will do. */
export const hookAnnotation = "hook.test/label";
export const weekSeconds = 604_800;

export interface StopHooksOptions {
  readonly timeline: Timeline;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly log: (who: string, what: string) => void;
}

interface Hook {
  /** Time after a change of its labels at which a pod sees it, in milliseconds; infinite if its file is never written again. */
  readonly lagMs: number;
  /** True: the hook ends only when it sees the label. */
  readonly isBlocking: boolean;
  isShown: boolean;
  /** When the pod got the label, in milliseconds since the epoch. */
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

  /** Time that the pod takes to end after its deletion, in milliseconds; undefined if it has no such hook. */
  endsAfterMs(pod: StoredPod): number | undefined {
    const hook = this.#hooks.get(pod.metadata.uid);
    if (hook === undefined) return undefined;
    const { draw, log } = this.#options;
    const isOver = !hasStarted(pod) || !hook.isBlocking || hook.isShown;
    const why = hook.isShown ? "sees the label" : isOver ? "need not wait" : "waits for the label, or for a week";
    log("hook", `of ${pod.metadata.name} ${why}`);
    return isOver ? draw.between(100, 3_000) : weekSeconds * 1_000;
  }

  /** True for a terminating pod that would hang for a week. */
  isStuck(pod: StoredPod): boolean {
    const hook = this.#hooks.get(pod.metadata.uid);
    const isTerminating = pod.metadata.deletionTimestamp !== undefined;
    return isTerminating && hook !== undefined && hasStarted(pod) && hook.isBlocking && !hook.isShown;
  }

  /** The hook of a pod. {@link Hook.labelledMs} and `lagMs` say whether its node had time to show it the label. */
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

  /** The node writes the current labels into the file, unless the pod is terminating. */
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

/** True for a pod that has the label which its hook waits for. */
export function hasLabel({ metadata }: StoredPod): boolean {
  const [key = "", value] = (metadata.annotations?.[hookAnnotation] ?? "").split("=");
  const text = metadata.labels?.[key];
  return value === undefined ? text !== undefined && text !== "" : text === value;
}
