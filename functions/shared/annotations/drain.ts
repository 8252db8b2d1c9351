/** The annotations that make Sluice ask other pods about the data of a pod, before the pod goes and before its volume goes. */
import { annotationOn, objectName } from "./entry.ts";
import {
  authorityGrammar,
  parseAuthorityRef,
  parseExpectedField,
  parseQuestionUrl,
  type QuestionUrl,
} from "./health.ts";

const onStatefulSet = annotationOn("StatefulSet");

/** In the path of a question about a drain: the name of the pod in question. */
export const drainedPod = "{pod}";

function parseDrainUrl(text: string): QuestionUrl | undefined {
  const url = parseQuestionUrl(text);
  return url?.path.includes(drainedPod) ? url : undefined;
}

export const drainUrl = onStatefulSet("sluice.dev/drain-url", parseDrainUrl, {
  grammar: "http://:PORT/PATH or https://:PORT/PATH, without a host, and with {pod} in the path",
  fallback: "absent: no pod is asked; malformed: no pod of the StatefulSet is suspended, and no volume removed",
  meaning:
    "another pod of the group is asked there whether no pod needs the data of {pod} any more: before it goes, and before its volume goes",
  mayContainSecret: true,
});

export const drainField = onStatefulSet("sluice.dev/drain-field", parseExpectedField, {
  grammar: "FIELD=VALUE or FIELD.FIELD=VALUE, of a JSON object",
  fallback: "absent: the status 200 says yes; malformed: as for sluice.dev/drain-url",
  meaning: "which field of the answer says that no pod needs the data, and by which value",
});

export const drainSecret = onStatefulSet("sluice.dev/drain-secret", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "absent: it is asked without a password; malformed: as for sluice.dev/drain-url",
  meaning: "its keys username and password are what is asked with",
});

export const drainAuthority = onStatefulSet("sluice.dev/drain-authority", parseAuthorityRef, {
  grammar: authorityGrammar,
  fallback: "absent: over https the authorities that Node trusts; malformed: as for sluice.dev/drain-url",
  meaning:
    "its key ca.crt, in PEM, holds the authorities whose certificates are trusted when a pod is asked over https",
});

export const drainWitnesses = onStatefulSet("sluice.dev/drain-witnesses", (text) => (text === "1" ? 1 : undefined), {
  grammar: "1",
  fallback:
    "absent: all that can be asked, three at most, and each has to say yes; malformed: as for sluice.dev/drain-url",
  meaning: "the first pod that answers decides alone, as before: one compromised pod can then have a volume removed",
});

export const drainEntries = [drainUrl, drainField, drainSecret, drainAuthority, drainWitnesses] as const;
