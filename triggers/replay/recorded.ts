/** Reads the file of a bug report as the request that the server would have received: an event, a review, or a whole request. */

import type { AdmissionDefinition } from "../../functions/shared/admission/definition.ts";
import { type Fields, fieldsOf } from "../../functions/shared/base/fields.ts";

/** A request to post. The server decides about its content, and only a text that is no request at all is refused before. */
export interface Recorded {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Says why a file holds no request. */
export interface Mistake {
  readonly mistake: string;
}

const structuredType = "application/cloudevents+json";
/** The body is formatted again, and may be longer or shorter than the recorded one. */
const ofTransfer = ["content-length", "content-encoding", "transfer-encoding"];

/**
 * The request that a text describes, or why it is none: a CloudEvent in structured mode, an AdmissionReview, or a request as
 * `{"path", "headers", "body"}`, which is how a CloudEvent in binary mode is recorded. `path` may be left out.
 */
export function readRecorded(text: string, admissions: readonly AdmissionDefinition[]): Recorded | Mistake {
  const value = fieldsOf(parse(text));
  if (value === undefined) return mistake("it is no JSON object");
  if ("headers" in value) return readRequest(value, admissions);
  if (isReview(value)) return requestOfReview(value, { "content-type": "application/json" }, text, admissions);
  if ("specversion" in value || ("type" in value && "source" in value)) {
    return { path: "/", headers: { "content-type": structuredType }, body: text };
  }
  return mistake("it is none of them");
}

function readRequest(
  { path, headers: given, body }: Fields,
  admissions: readonly AdmissionDefinition[],
): Recorded | Mistake {
  const headers = readHeaders(given);
  if (headers === undefined) return mistake("its headers are not names with a text each");
  if (path !== undefined && (typeof path !== "string" || !path.startsWith("/")))
    return mistake('its path does not begin with "/"');
  const text = typeof body === "string" ? body : JSON.stringify(body ?? {});
  if (path !== undefined) return { path, headers, body: text };
  const review = fieldsOf(typeof body === "string" ? parse(body) : body);
  if (review !== undefined && isReview(review)) return requestOfReview(review, headers, text, admissions);
  return { path: "/", headers, body: text };
}

/** Undefined for a text that no request could have. */
function readHeaders(given: unknown): Readonly<Record<string, string>> | undefined {
  const pairs = Object.entries(fieldsOf(given) ?? { none: undefined });
  if (!pairs.every((pair): pair is [string, string] => typeof pair[1] === "string")) return undefined;
  try {
    const headers = new Headers(pairs);
    for (const name of ofTransfer) headers.delete(name);
    return Object.fromEntries(headers);
  } catch {
    return undefined;
  }
}

/**
 * A review does not show where it was posted, but it names its resource: it goes to the path that Sluice's own configuration
 * has for that resource, or that of the next version.
 */
function requestOfReview(
  { request }: Fields,
  headers: Readonly<Record<string, string>>,
  body: string,
  admissions: readonly AdmissionDefinition[],
): Recorded | Mistake {
  const { resource, subResource } = fieldsOf(request) ?? {};
  const reviewed = [fieldsOf(resource)?.resource, subResource].filter((one) => typeof one === "string" && one !== "");
  const places = admissions.flatMap(({ registration: { path, rule }, nextRules = [] }) =>
    [rule, ...nextRules].map(({ resources }) => ({ path, resources })),
  );
  const path = places.find(({ resources }) => resources.includes(reviewed.join("/")))?.path;
  if (path !== undefined) return { path, headers, body };
  const served = places.flatMap(({ resources }) => resources).join(" or ") || "nothing";
  const what = reviewed.length === 0 ? "a resource that it does not name" : JSON.stringify(reviewed.join("/"));
  return mistake(`it reviews ${what}, and here ${served} is reviewed, unless a path is written beside it`);
}

/** A user may have cut the kind away. The server then answers that it is missing. */
function isReview({ kind, request }: Fields): boolean {
  return kind === "AdmissionReview" || fieldsOf(request) !== undefined;
}

function mistake(because: string): Mistake {
  const request = '{"path": "/", "headers": {"ce-id": …}, "body": {…}}';
  const wanted = `a CloudEvent in structured mode, an AdmissionReview, or a request as ${request}`;
  return { mistake: `write ${wanted}, in JSON: ${because}` };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
