/**
 * The endpoints for admission reviews. A request that is no review gets a status and a message. A review always gets a review as
 * its answer, even if the function fails, because the API server then shows its users our message instead of its own.
 */

import type { ServerResponse } from "node:http";
import type { Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { allow, badRequest, guardCause, internalError } from "../../functions/shared/admission/answers.ts";
import type {
  AdmissionAnswer,
  AdmissionDefinition,
  AdmissionHandler,
  AdmissionRequest,
} from "../../functions/shared/admission/definition.ts";
import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";
import { isNamespaceName, isObjectName } from "../../functions/shared/base/dns-names.ts";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { escapeControls } from "../../functions/shared/base/escape-control.ts";
import { fieldsOf } from "../../functions/shared/base/fields.ts";
import { parseGoDuration } from "../../functions/shared/clock/durations.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { createRepeats } from "../telemetry/repeats.ts";
import { inReviewSpan } from "../telemetry/tracing-spans.ts";
import type { Bodies } from "./bodies.ts";

/** A function that decides reviews, and its handler in this process. */
export interface OpenAdmission {
  readonly definition: AdmissionDefinition;
  readonly handler: AdmissionHandler;
}

export interface AdmissionEndpointOptions {
  readonly admissions: readonly OpenAdmission[];
  readonly reporting: Pick<Reporting, "log" | "metrics">;
  readonly bodies: Bodies;
  /** Milliseconds of a clock that never jumps. */
  monotonicMs(): number;
}

const versions = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
const longestShownWord = 80;
/** API servers send UUIDs, and the name of an operation or a subresource is a word. */
const longestUid = 256;
const longestWord = 63;
/** A group is a DNS name. */
const longestGroup = 253;
/** Users have no longer names. A longer one is cut, with a mark that makes it the name of no user. */
const longestUser = 1_024;
/** The time that the API server waits at most, and if a webhook sets none, in milliseconds. */
const longestTimeoutMs = 30_000;
const usualTimeoutMs = 10_000;
/** A storm is refused a thousand times a second, so that each guard and zone is logged once a minute. Level debug has all. */
const rememberedRefusals = 10_000;

/** Adds a route for each function that decides reviews. Errors are HTTPExceptions with a message. */
export function serveAdmissions(app: Hono, options: AdmissionEndpointOptions): void {
  const { admissions, reporting } = options;
  const isWorthALine = createRepeats(rememberedRefusals, () => options.monotonicMs());
  for (const admission of admissions) {
    const { definition } = admission;
    for (const path of definition.paths) {
      app.post(path, async (c) => {
        const deadlineMs = options.monotonicMs() + answerWithinMs(timeoutOf(c));
        const arrival = { path, deadlineMs, signal: leavingOf(c) };
        const { apiVersion, request, contradiction } = await receive(c, options.bodies, definition, arrival);
        const answer = await inReviewSpan(
          (name) => c.req.header(name),
          definition.name,
          request,
          () =>
            count(admission, request, reporting, async () => contradiction ?? decide(admission, request, reporting)),
        );
        report(definition, request, answer, reporting, isWorthALine);
        const text = JSON.stringify({ apiVersion, kind: "AdmissionReview", response: render(request, answer) });
        const bytes = Buffer.byteLength(text);
        c.set("responseBytes", bytes);
        // Hono itself makes a Headers of these and reads it again, which costs a tenth of the time under load.
        return new Response(text, { headers: { "content-type": "application/json", "content-length": `${bytes}` } });
      });
      app.all(path, (c) => c.text("POST an AdmissionReview here.", 405, { allow: "POST" }));
    }
  }
}

declare module "hono" {
  interface ContextVariableMap {
    /** Length of the answer; undefined if its writer has not set it. To ask its headers costs more than to write them. */
    responseBytes: number | undefined;
  }
}

/** The API server states how long it waits: nine tenths of that are for the review, as in rollout-operator. */
function answerWithinMs(timeout = ""): number {
  const known = answerTimesMs.get(timeout);
  if (known !== undefined) return known;
  const timeoutMs = parseGoDuration(timeout);
  const isGiven = timeoutMs !== undefined && timeoutMs > 0;
  const withinMs = 0.9 * (isGiven ? Math.min(timeoutMs, longestTimeoutMs) : usualTimeoutMs);
  answerTimesMs.set(timeout, withinMs);
  return withinMs;
}

/** The parsed queries: an API server sends the same one with every review. */
const answerTimesMs = new BoundedMap<string, number>(100);

/** Reads only the timeout of the query, but refuses a query that cannot be read. */
function timeoutOf(c: Context): string | undefined {
  try {
    return c.req.query("timeout");
  } catch {
    throw malformed("its query cannot be read");
  }
}

type Arrival = Pick<AdmissionRequest, "path" | "deadlineMs" | "signal">;

/** Aborted if the connection ends before the answer is out; undefined if the request came over no connection. */
function leavingOf(c: Context): AbortSignal | undefined {
  const { outgoing } = (c.env ?? {}) as { readonly outgoing?: ServerResponse };
  if (outgoing === undefined) return undefined;
  const leaving = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) leaving.abort();
  });
  return leaving.signal;
}

interface Received {
  readonly apiVersion: string;
  readonly request: AdmissionRequest;
  /** The answer to a review whose objects have another name than the review itself. No function is asked then. */
  readonly contradiction: AdmissionAnswer | undefined;
}

/** The parts of a review that its function reads. Many reviews wait at once, so that the rest is not kept. */
async function receive(
  c: Context,
  bodies: Bodies,
  { bodyLimitBytes: limitBytes, keepOf }: AdmissionDefinition,
  arrival: Arrival,
): Promise<Received> {
  const sent = c.req.header("content-type") ?? "";
  const mediaType = sent.replace(/;.*$/s, "").trim().toLowerCase();
  if (mediaType !== "application/json") {
    const shown = mediaType === "" ? "none" : show(mediaType);
    throw new HTTPException(415, { message: `The wrong content type, ${shown}: send application/json.` });
  }
  const received = readReview(await bodies.json(c, limitBytes, malformed), arrival);
  if (keepOf === undefined) return received;
  return {
    ...received,
    request: { ...received.request, object: keepOf(received.request.object), oldObject: undefined },
  };
}

/** The request of a review, and the version to answer in. */
function readReview(body: unknown, arrival: Arrival): Received {
  if (body === undefined) throw malformed("the body is empty");
  const { kind, apiVersion, request } = fieldsOf(body) ?? {};
  if (kind !== "AdmissionReview") throw malformed(`its kind is ${show(kind)}`);
  if (typeof apiVersion !== "string" || !versions.includes(apiVersion)) {
    throw malformed(`its apiVersion is ${show(apiVersion)}, and not ${versions.join(" or ")}`);
  }
  const fields = fieldsOf(request) ?? {};
  const read: AdmissionRequest = {
    user: usernameOf(fields.userInfo),
    resource: typeOf(fields.resource),
    uid: uidOf(fields.uid),
    operation: wordOf("operation", fields.operation),
    subresource: wordOf("subResource", fields.subResource),
    namespace: nameOf("namespace", fields.namespace, isNamespaceName),
    name: nameOf("name", fields.name, isObjectName),
    dryRun: fields.dryRun === true || isDryRun(fields.object),
    object: fields.object,
    oldObject: fields.oldObject,
    ...arrival,
  };
  return { apiVersion, request: read, contradiction: findContradiction(read) };
}

/**
 * A review is decided by its own namespace and name. An object with others is not the object of the review, so that nothing may
 * be decided by it. An object that is being created may have neither yet.
 */
function findContradiction(request: AdmissionRequest): AdmissionAnswer | undefined {
  for (const which of ["object", "oldObject"] as const) {
    const metadata = fieldsOf(fieldsOf(request[which])?.metadata) ?? {};
    for (const field of ["namespace", "name"] as const) {
      const [asked, stated] = [request[field], textOf(metadata[field])];
      if (asked === "" || stated === "" || asked === stated) continue;
      const message = `the review is of the ${field} ${show(asked)}, and metadata.${field} of its ${which} is ${show(stated)}: have whatever sends it say the same`;
      return badRequest("invalid-request", message, { field: `metadata.${field}` });
    }
  }
  return undefined;
}

function uidOf(value: unknown): string {
  if (typeof value !== "string" || value === "") throw malformed("it has no request with a uid to answer to");
  if (value.length > longestUid) throw malformed(`its uid is longer than ${longestUid} characters`);
  return value;
}

function wordOf(field: string, value: unknown, longest = longestWord): string {
  const word = textOf(value);
  if (word.length > longest) throw malformed(`its ${field} is longer than ${longest} characters`);
  return word;
}

function typeOf(value: unknown): AdmissionRequest["resource"] {
  const { group, version, resource } = fieldsOf(value) ?? {};
  return {
    group: wordOf("resource's group", group, longestGroup),
    version: wordOf("resource's version", version),
    resource: wordOf("resource", resource),
  };
}

/** Refuses what Kubernetes accepts as no name: it is neither looked up nor logged. Some reviews have no name. */
function nameOf(field: string, value: unknown, isName: (text: string) => boolean): string {
  const name = textOf(value);
  if (name !== "" && !isName(name)) throw malformed(`its ${field} ${show(name)} is not a name that Kubernetes accepts`);
  return name;
}

/** kubectl drain --dry-run=server marks it in the Eviction, which the API server reads only after the webhooks. */
function isDryRun(object: unknown): boolean {
  const { dryRun } = fieldsOf(fieldsOf(object)?.deleteOptions) ?? {};
  return Array.isArray(dryRun) && dryRun.length > 0;
}

/** Also counts evictions: in rollout-operator's metrics, and for their groups, except dry runs, whose clients do not wait. */
async function count(
  { definition: { peerReasons } }: OpenAdmission,
  { namespace, dryRun }: AdmissionRequest,
  { metrics }: AdmissionEndpointOptions["reporting"],
  decide: () => Promise<AdmissionAnswer>,
): Promise<AdmissionAnswer> {
  if (peerReasons === undefined) return decide();
  metrics.inflightEvictions.inc();
  const answer = await decide();
  metrics.inflightEvictions.dec();
  const reason = peerReasons[answer.guard] ?? "denied";
  metrics.evictions.inc({ reason, status: String(answer.allowed ? 200 : answer.code) });
  const { group } = answer;
  if (group !== undefined && !dryRun) metrics.countEviction({ namespace, group }, answer.allowed);
  return answer;
}

/** The answer of the function, or, if it throws, the answer that the function has for that: allowed or denied. */
async function decide(
  { definition, handler: asked }: OpenAdmission,
  request: AdmissionRequest,
  reporting: AdmissionEndpointOptions["reporting"],
): Promise<AdmissionAnswer> {
  try {
    return await asked.review(request);
  } catch (error) {
    const what = messageOf(error);
    reporting.log("error", `a review could not be decided: ${what}`, { ...about(definition, request), err: error });
    const message = `${definition.name} could not decide this: ${what}`;
    return definition.whenBroken === "open"
      ? allow("broken", { warnings: [message] })
      : internalError("broken", message);
  }
}

function render({ uid, dryRun, subresource }: AdmissionRequest, answer: AdmissionAnswer): object {
  if (answer.allowed) {
    const { patch = [] } = answer;
    const warnings = answer.warnings.map(escapeControls);
    const patched = { patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
    return { uid, allowed: true, ...(warnings.length > 0 ? { warnings } : {}), ...(patch.length > 0 ? patched : {}) };
  }
  const { code, reason, cause, field, guard } = answer;
  // kubectl prints it as it is, and it may contain text that others have written into a budget.
  const message = escapeControls(answer.message);
  const causes = [
    ...(cause === "" ? [] : [{ reason: cause, message, ...(field === "" ? {} : { field: escapeControls(field) }) }]),
    // `kubectl sluice drain` prints it. Other clients read nothing but the code and the message.
    ...(dryRun && subresource === "eviction" ? [{ reason: guardCause, message: guard }] : []),
  ];
  const details = causes.length === 0 ? {} : { details: { causes } };
  return { uid, allowed: false, status: { status: "Failure", code, reason, message, ...details } };
}

function report(
  definition: AdmissionDefinition,
  request: AdmissionRequest,
  answer: AdmissionAnswer,
  { log, metrics }: AdmissionEndpointOptions["reporting"],
  isWorthALine: (what: string) => boolean,
): void {
  const { guard } = answer;
  metrics.verdicts.inc({ function: definition.name, guard });
  // The client of a dry run does not wait for the eviction.
  if (guard === "never-possible" && !request.dryRun)
    metrics.neverPossible.note({ namespace: request.namespace, function: definition.name, zone: answer.zone ?? "" });
  const fields = { ...about(definition, request), guard, zone: answer.zone ?? "" };
  if (answer.allowed) {
    const message = `${request.name} is reserved, and may go: a review asked for it`;
    // A client that can post reviews can have pods reserved, so the log names that user.
    // A user may have any name, so that a reader of the log gets the escapes as well.
    const user = escapeControls(request.user.slice(0, longestShownWord));
    if (answer.reserved) log("info", message, { ...fields, user });
    else log("debug", "a review was allowed", fields);
    return;
  }
  const isNew = isWorthALine(`${definition.name} ${guard} ${request.namespace} ${answer.zone}`);
  log(isNew ? "info" : "debug", answer.message, { ...fields, code: answer.code });
}

function about(definition: AdmissionDefinition, { uid, operation, namespace, name, dryRun }: AdmissionRequest): object {
  return { function: definition.name, uid, operation, namespace, object: name, dryRun };
}

/** The user that the API server names in the review. */
function usernameOf(userInfo: unknown): string {
  const name = textOf(fieldsOf(userInfo)?.username);
  return name.length > longestUser ? `${name.slice(0, longestUser)}…` : name;
}

function malformed(because: string): HTTPException {
  return new HTTPException(400, { message: `This is not an AdmissionReview that can be answered: ${because}.` });
}

function show(value: unknown): string {
  if (value === undefined) return "missing";
  if (typeof value !== "string") return "no string";
  return JSON.stringify(value.slice(0, longestShownWord));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
