/** Whether an object may become smaller. What cannot be known holds nobody back: `observe.ts` has answered that already. */
import { noDownscale } from "../shared/objects/vocabulary/scaling.ts";
import type { AdmissionAnswer } from "../shared/pass/definition.ts";
import { allow, badRequest } from "../shared/review/answers.ts";
import type { Downscale } from "../shared/review/size-review.ts";

/** Who says how many replicas an object has: an entry of `metadata.managedFields` that owns `spec.replicas`. */
export interface Owner {
  readonly manager: string;
  /** It applies manifests at the server: what it does not own, its manifest does not say. */
  readonly isApply: boolean;
  /** The pod template is its own, too: it writes whole manifests. */
  readonly ownsTemplate: boolean;
}

/** What tells how the number of replicas came about. */
export interface Written {
  /** Undefined where the object says nothing of whoever wrote it. */
  readonly owners: readonly Owner[] | undefined;
  /** What `kubectl apply` keeps of the manifest: whether it said replicas; undefined where there is none. */
  readonly isSaid: boolean | undefined;
}

export interface DownscaleSnapshot {
  readonly change: Downscale;
  /** By the label of what is stored. */
  readonly isProtected: boolean;
  /** Why its size is not a matter of its manifest alone, in words, such as `follows "a"`; empty where it is. */
  readonly care: string;
  /** As it is to be, its size is for another object to say. */
  readonly isLed: boolean;
  readonly old: Written;
  readonly now: Written;
}

export function decide(snapshot: DownscaleSnapshot): AdmissionAnswer {
  const { change, isProtected } = snapshot;
  const { resource, namespace, name, from, to } = change;
  if (isProtected) {
    const sentence = `downscale of ${resource}/${name} in ${namespace} from ${from} to ${to} replicas is not allowed because it has the label '${noDownscale.key}=true'`;
    return badRequest("no-downscale", sentence, { zone: name });
  }
  const by = droppedBy(snapshot);
  if (by === undefined) return allow("allowed");
  const sentence =
    `${resource}/${name} in ${namespace} would go from ${from} replicas to 1: ${by}. It ${snapshot.care}. ` +
    `Write "replicas: ${from}" into the manifest; where 1 is meant, use kubectl scale`;
  return badRequest("replicas-dropped", sentence, { zone: name, field: "spec.replicas" });
}

/** Whose manifest left the number out, so that 1 came in its place; undefined where somebody may have meant 1. */
function droppedBy({ change, care, isLed, old, now }: DownscaleSnapshot): string | undefined {
  if (change.isScale || change.resource !== "statefulsets" || change.to !== 1 || care === "") return undefined;
  const [before] = old.owners ?? [];
  // It had an owner and has none, and whoever writes a number owns it: it was applied at the server by somebody who left it out.
  if (before !== undefined && now.owners?.length === 0) {
    return `the manifest that is applied leaves out spec.replicas, which ${before.manager} had written, and Kubernetes takes 1`;
  }
  // What is kept of the manifest changes with each `kubectl apply`, and with nothing else.
  if (old.isSaid === true && now.isSaid === false) {
    return "the manifest that is applied leaves out spec.replicas, which the one before it had, and Kubernetes takes 1";
  }
  // A patch that takes the field away comes to us as one that writes 1.
  const whole = now.owners?.find(({ isApply, ownsTemplate }) => !isApply && ownsTemplate);
  if (isLed && whole !== undefined)
    return `the manifest that ${whole.manager} writes leaves out spec.replicas, or says 1`;
  return undefined;
}
