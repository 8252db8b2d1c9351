/** The annotations that make Sluice ask the pods of a StatefulSet about their health before one of them goes. */

import { isObjectName } from "../base/dns-names.ts";
import { isPath, parsePort } from "../base/ports-and-paths.ts";
import { annotationOn, objectName, oneOf } from "./entry.ts";

/** Where a pod is asked: all of a URL but its host, which is the pod's own. */
export interface QuestionUrl {
  readonly scheme: "http" | "https";
  readonly port: number;
  /** With its query. */
  readonly path: string;
}

/** What a user may, or must, write for a product whose pods can be asked. */
interface ProductTraits {
  /** Where its pods answer, unless a user says otherwise; absent: the user must say. */
  readonly url?: QuestionUrl;
  /** True for one that answers no request without a password. */
  readonly needsSecret: boolean;
  /** True where a user may say which field of the answer says yes. */
  readonly takesField: boolean;
}

export type ProductName = "rabbitmq" | "http";

export const productTraits: Readonly<Record<ProductName, ProductTraits>> = {
  rabbitmq: {
    url: { scheme: "http", port: 15_672, path: "/api/health/checks/node-is-quorum-critical" },
    needsSecret: true,
    takesField: false,
  },
  http: { needsSecret: false, takesField: true },
};

const productNames = Object.keys(productTraits) as readonly ProductName[];

/** A field of a JSON object, and its expected value. */
export interface ExpectedField {
  /** The names on the way to it. */
  readonly path: readonly string[];
  readonly value: string;
}

const onStatefulSet = annotationOn("StatefulSet");

/** A text that could name a host, such as `1@other:80`, is no URL of the pod's own. */
export function parseQuestionUrl(text: string): QuestionUrl | undefined {
  const [, scheme, digits = "", path = "/"] = /^(https?):\/\/:(\d+)(\/.*)?$/.exec(text) ?? [];
  const port = parsePort(digits);
  if ((scheme !== "http" && scheme !== "https") || port === undefined || !isPath(path)) return undefined;
  return { scheme, port, path };
}

/** The object whose `ca.crt` holds the trusted certificates. */
export interface AuthorityRef {
  readonly resource: "secrets" | "configmaps";
  readonly name: string;
}

export const authorityGrammar = "secret/NAME or configmap/NAME, in the namespace of the StatefulSet";

export function parseAuthorityRef(text: string): AuthorityRef | undefined {
  const [, kind, name = ""] = /^(secret|configmap)\/(.+)$/.exec(text) ?? [];
  if (!isObjectName(name)) return undefined;
  return { resource: kind === "secret" ? "secrets" : "configmaps", name };
}

/** The first `=` ends the names. */
export function parseExpectedField(text: string): ExpectedField | undefined {
  const end = text.indexOf("=");
  const path = text.slice(0, Math.max(end, 0)).split(".");
  return path.some((name) => name === "") ? undefined : { path, value: text.slice(end + 1) };
}

export const healthQuestion = onStatefulSet("sluice.dev/health-question", oneOf(productNames), {
  grammar: productNames.join(" or "),
  fallback: "absent: no pod is asked; malformed: no pod of the StatefulSet is taken",
  meaning: "each pod is asked before it goes whether the others can do without it, and no other pod goes meanwhile",
});

export const healthUrl = onStatefulSet("sluice.dev/health-url", parseQuestionUrl, {
  grammar: "http://:PORT/PATH or https://:PORT/PATH, without a host: it is the pod's own",
  fallback: "absent: where the product answers by itself; malformed: no pod of the StatefulSet is taken",
  meaning: "at which port and path a pod is asked",
  mayContainSecret: true,
});

export const healthSecret = onStatefulSet("sluice.dev/health-secret", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "absent: a pod is asked without a password; malformed: no pod of the StatefulSet is taken",
  meaning: "its keys username and password are what a pod is asked with",
});

export const healthAuthority = onStatefulSet("sluice.dev/health-authority", parseAuthorityRef, {
  grammar: authorityGrammar,
  fallback: "absent: over https the authorities that Node trusts; malformed: no pod of the StatefulSet is taken",
  meaning:
    "its key ca.crt, in PEM, holds the authorities whose certificates are trusted when a pod is asked over https",
});

export const healthField = onStatefulSet("sluice.dev/health-field", parseExpectedField, {
  grammar: "FIELD=VALUE or FIELD.FIELD=VALUE, of a JSON object",
  fallback: "absent: the status 200 says yes; malformed: no pod of the StatefulSet is taken",
  meaning: "which field of the answer says yes, and by which value",
});

export const healthUnknown = onStatefulSet("sluice.dev/health-unknown", oneOf(["wait", "go"]), {
  grammar: "wait or go",
  fallback: "wait",
  meaning: "what a pod does that gives no answer: it waits, or it goes if no other pod of the group is down",
});

export const questionEntries = [
  healthQuestion,
  healthUrl,
  healthSecret,
  healthAuthority,
  healthField,
  healthUnknown,
] as const;
