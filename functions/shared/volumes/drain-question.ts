/** Sluice's question to another pod of a group before a pod goes, and before its volume goes: is its data no longer needed? */

import * as keys from "../annotations/drain.ts";
import type { Malformed } from "../annotations/entry.ts";
import type { AuthorityRef, ExpectedField, QuestionUrl } from "../annotations/health.ts";
import type { Metadata } from "../kubernetes/cluster.ts";
import { type AnnotationValue, readValue, valueIn } from "./pvc.ts";

export interface DrainQuestion {
  /** Its path has the place of the pod's name. */
  readonly url: QuestionUrl;
  /** The name of the Secret that it is asked with. */
  readonly secret: string | undefined;
  /** Whose certificates are trusted over https; undefined: those whom Node trusts. */
  readonly authority: AuthorityRef | undefined;
  readonly field: ExpectedField | undefined;
  /** The first pod that answers decides; otherwise each pod that is asked has to say yes. */
  readonly isOneEnough: boolean;
}

/** Absent for a StatefulSet without annotations of a drain question. A malformed value is also added to `malformed`. */
export function parseDrainQuestion(metadata: Metadata, malformed: Malformed[]): AnnotationValue<DrainQuestion> {
  const url = readValue(keys.drainUrl, metadata, malformed);
  const field = readValue(keys.drainField, metadata, malformed);
  const secret = readValue(keys.drainSecret, metadata, malformed);
  const authority = readValue(keys.drainAuthority, metadata, malformed);
  const witnesses = readValue(keys.drainWitnesses, metadata, malformed);
  const wrong = [url, field, secret, authority, witnesses].find(({ kind }) => kind === "malformed");
  if (wrong?.kind === "malformed") return wrong;
  if (url.kind === "value") {
    const how = { field: valueIn(field), secret: valueIn(secret), authority: valueIn(authority) };
    return { kind: "value", value: { url: url.value, ...how, isOneEnough: witnesses.kind === "value" } };
  }
  if ([field, secret, authority, witnesses].every(({ kind }) => kind === "absent")) return { kind: "absent" };
  const message = `annotation ${keys.drainUrl.key} is missing, though others say how to ask: write ${keys.drainUrl.grammar}`;
  malformed.push({ key: keys.drainUrl.key, message });
  return { kind: "malformed", message };
}

/** The path of the question about one pod. */
export function drainPath({ url }: DrainQuestion, pod: string): string {
  return url.path.replaceAll(keys.drainedPod, encodeURIComponent(pod));
}
