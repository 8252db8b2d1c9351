/** The health question for the pods of a StatefulSet, parsed once at the border. */

import type { Metadata } from "../kubernetes/cluster.ts";
import { type Annotation, type Malformed, read } from "./entry.ts";
import * as keys from "./health.ts";

export interface HealthQuestion {
  /** How it is asked; undefined where it is malformed: no pod can be asked, and none goes. */
  readonly ask: Ask | undefined;
  /** What becomes of a pod that gives no answer. */
  readonly unknown: "wait" | "go";
  readonly malformed: readonly Malformed[];
}

export interface Ask {
  readonly product: keys.ProductName;
  readonly url: keys.QuestionUrl;
  /** The name of the Secret that it is asked with. */
  readonly secret: string | undefined;
  /** Whose certificates are trusted over https; undefined: those whom Node trusts. */
  readonly authority: keys.AuthorityRef | undefined;
  readonly field: keys.ExpectedField | undefined;
}

/**
 * Undefined for an object without annotations of a health question. `serviceName`: the Service that gives its pods their DNS
 * names.
 */
export function parseQuestion(metadata: Metadata, serviceName: string): HealthQuestion | undefined {
  const isWritten = ({ key }: { readonly key: string }) => metadata.annotations?.[key] !== undefined;
  if (!keys.questionEntries.some(isWritten)) return undefined;
  const malformed: Malformed[] = [];
  const of = <T>(entry: Annotation<T>): T | undefined => read(entry, metadata, malformed);
  const unknown = of(keys.healthUnknown) ?? "wait";
  // A malformed policy counts as the careful one; the pods are still asked.
  const isPolicyAlone = malformed.length > 0;
  const product = of(keys.healthQuestion);
  const [ownUrl, secret, field] = [of(keys.healthUrl), of(keys.healthSecret), of(keys.healthField)];
  const authority = of(keys.healthAuthority);
  const wrong = (message: string) => malformed.push({ key: keys.healthQuestion.key, message });
  if (!isWritten(keys.healthQuestion))
    wrong(`annotation ${keys.healthQuestion.key} is missing, though others say how to ask: write what is asked`);
  const row = product && keys.productTraits[product];
  const url = ownUrl ?? row?.url;
  if (row !== undefined && url === undefined && !isWritten(keys.healthUrl))
    wrong(
      `annotation ${keys.healthUrl.key} is missing, and ${product} has no usual one: write ${keys.healthUrl.grammar}`,
    );
  if (row?.needsSecret && !isWritten(keys.healthSecret))
    wrong(`annotation ${keys.healthSecret.key} is missing, and ${product} answers no request without a password`);
  if (row?.takesField === false && field !== undefined)
    wrong(`annotation ${keys.healthField.key} says nothing of ${product}, whose answers are known: remove it`);
  if (serviceName === "")
    wrong(
      "spec.serviceName is empty, so that its pods have no names in DNS and cannot be asked: name a headless Service",
    );
  const isAskable = malformed.length === (isPolicyAlone ? 1 : 0);
  const isComplete = isAskable && product !== undefined && url !== undefined;
  const ask = isComplete ? { product, url, secret, authority, field } : undefined;
  return { ask, unknown, malformed };
}
