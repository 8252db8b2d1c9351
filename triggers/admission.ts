/**
 * The door for admission reviews. What is no review is answered with a status and a sentence; a review is always answered with
 * a review, whatever happens to the function that judges it: the API server gives its users our sentence, and not its own.
 */
import type { Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { AdmissionAnswer, AdmissionDefinition, AdmissionRequest, Judge } from "../functions/shared/definition.ts";
import { parseGoDuration } from "../functions/shared/durations.ts";
import { limitBody } from "./body-limit.ts";
import type { Reporting } from "./reporting.ts";
import { inReviewSpan } from "./tracing-spans.ts";

/** A function that judges reviews, and its judge in this process. */
export interface OpenAdmission {
  readonly definition: AdmissionDefinition;
  readonly judge: Judge;
}

export interface AdmissionDoorOptions {
  readonly admissions: readonly OpenAdmission[];
  readonly reporting: Pick<Reporting, "log" | "metrics">;
  /** Milliseconds of a clock that never jumps. */
  monotonicMs(): number;
}

/** An API server takes objects up to 3 MB, and a review may hold two of them. */
const bodyLimitBytes = 8 * 1024 * 1024;
const versions = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
const shownCharacters = 80;
/** What the API server waits at most, and where a webhook says nothing, in milliseconds. */
const longestTimeoutMs = 30_000;
const usualTimeoutMs = 10_000;
/** A refusal is logged at most this often for each guard and zone; debug has them all. */
const sayAgainAfterMs = 60_000;
const rememberedOccasions = 10_000;

/** Adds a route for each function that judges reviews. Errors are HTTPExceptions whose message is one sentence. */
export function serveAdmissions(app: Hono, options: AdmissionDoorOptions): void {
  const { admissions, reporting } = options;
  const isWorthALine = createOccasions(options);
  const limit = limitBody(bodyLimitBytes, (c) => c.text(`The body is larger than ${bodyLimitBytes} bytes.`, 413));
  for (const admission of admissions) {
    const { definition } = admission;
    for (const path of definition.paths) {
      app.post(path, limit, async (c) => {
        const deadlineMs = options.monotonicMs() + answerWithinMs(c.req.query("timeout"));
        const { apiVersion, request } = readReview(await readJson(c), { path, deadlineMs });
        const answer = await inReviewSpan(
          (name) => c.req.header(name),
          definition.name,
          request,
          () => count(admission, reporting, () => judge(admission, request, reporting)),
        );
        report(definition, request, answer, reporting, isWorthALine);
        const text = JSON.stringify({ apiVersion, kind: "AdmissionReview", response: render(request.uid, answer) });
        const headers = { "content-type": "application/json", "content-length": String(Buffer.byteLength(text)) };
        return c.body(text, 200, headers);
      });
      app.all(path, (c) => c.text("POST an AdmissionReview here.", 405, { allow: "POST" }));
    }
  }
}

/** The API server says how long it waits: nine tenths of that are ours, as rollout-operator has it. */
function answerWithinMs(timeout: string | undefined): number {
  const timeoutMs = parseGoDuration(timeout ?? "");
  return 0.9 * (timeoutMs !== undefined && timeoutMs > 0 ? Math.min(timeoutMs, longestTimeoutMs) : usualTimeoutMs);
}

async function readJson(c: Context): Promise<unknown> {
  const sent = c.req.header("content-type") ?? "";
  const mediaType = sent.replace(/;.*$/s, "").trim().toLowerCase();
  if (mediaType !== "application/json") {
    const said = mediaType === "" ? "none" : show(mediaType);
    throw new HTTPException(415, { message: `The wrong content type, ${said}: send application/json.` });
  }
  const text = await c.req.text();
  try {
    return JSON.parse(text);
  } catch {
    throw malformed(text.trim() === "" ? "the body is empty" : "the body is not JSON");
  }
}

/** The request of a review, and the version to answer in. */
function readReview(
  body: unknown,
  arrival: Pick<AdmissionRequest, "path" | "deadlineMs">,
): { apiVersion: string; request: AdmissionRequest } {
  const { kind, apiVersion, request } = asFields(body);
  if (kind !== "AdmissionReview") throw malformed(`its kind is ${show(kind)}`);
  if (typeof apiVersion !== "string" || !versions.includes(apiVersion)) {
    throw malformed(`its apiVersion is ${show(apiVersion)}, and not ${versions.join(" or ")}`);
  }
  const fields = asFields(request);
  if (typeof fields.uid !== "string" || fields.uid === "") throw malformed("it has no request with a uid to answer to");
  return {
    apiVersion,
    request: {
      uid: fields.uid,
      operation: textOf(fields.operation),
      subresource: textOf(fields.subResource),
      namespace: textOf(fields.namespace),
      name: textOf(fields.name),
      dryRun: fields.dryRun === true || isDryRun(fields.object),
      object: fields.object,
      oldObject: fields.oldObject,
      ...arrival,
    },
  };
}

/** kubectl drain --dry-run=server says it in the Eviction, where the API server looks for it only after the webhooks. */
function isDryRun(object: unknown): boolean {
  const { dryRun } = asFields(asFields(object).deleteOptions);
  return Array.isArray(dryRun) && dryRun.length > 0;
}

/** Evictions are counted as rollout-operator counts them, too. */
async function count(
  { definition: { peerReasons } }: OpenAdmission,
  { metrics }: AdmissionDoorOptions["reporting"],
  judged: () => Promise<AdmissionAnswer>,
): Promise<AdmissionAnswer> {
  if (peerReasons === undefined) return judged();
  metrics.inflightEvictions.inc();
  const answer = await judged();
  metrics.inflightEvictions.dec();
  const reason = peerReasons[answer.guard] ?? "denied";
  metrics.evictions.inc({ reason, status: String(answer.allowed ? 200 : answer.code) });
  return answer;
}

/** True for the first time in a minute that something is said: a storm of reviews is refused a thousand times a second. */
function createOccasions({ monotonicMs }: AdmissionDoorOptions): (what: string) => boolean {
  const saidMs = new Map<string, number>();
  return (what) => {
    const nowMs = monotonicMs();
    if (nowMs - (saidMs.get(what) ?? Number.NEGATIVE_INFINITY) < sayAgainAfterMs) return false;
    if (saidMs.size >= rememberedOccasions) saidMs.clear();
    saidMs.set(what, nowMs);
    return true;
  };
}

/** What the function says, or what its row in the table of open and closed doors says when it breaks. */
async function judge(
  { definition, judge: asked }: OpenAdmission,
  request: AdmissionRequest,
  reporting: AdmissionDoorOptions["reporting"],
): Promise<AdmissionAnswer> {
  try {
    return await asked.review(request);
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    reporting.log("error", `a review could not be judged: ${what}`, { ...about(definition, request), err: error });
    const sentence = `${definition.name} could not judge this: ${what}`;
    if (definition.whenBroken === "open") return { allowed: true, guard: "broken", warnings: [sentence] };
    return { allowed: false, guard: "broken", code: 500, reason: "InternalError", cause: "", field: "", sentence };
  }
}

function render(uid: string, answer: AdmissionAnswer): object {
  if (answer.allowed) {
    const { warnings, patch = [] } = answer;
    const patched = { patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
    return { uid, allowed: true, ...(warnings.length > 0 ? { warnings } : {}), ...(patch.length > 0 ? patched : {}) };
  }
  const { code, reason, cause, field, sentence } = answer;
  const causes = [{ reason: cause, message: sentence, ...(field === "" ? {} : { field }) }];
  const details = cause === "" ? {} : { details: { causes } };
  return { uid, allowed: false, status: { status: "Failure", code, reason, message: sentence, ...details } };
}

function report(
  definition: AdmissionDefinition,
  request: AdmissionRequest,
  answer: AdmissionAnswer,
  { log, metrics }: AdmissionDoorOptions["reporting"],
  isWorthALine: (what: string) => boolean,
): void {
  const { guard } = answer;
  metrics.verdicts.inc({ function: definition.name, guard });
  const fields = { ...about(definition, request), guard, zone: answer.zone ?? "" };
  if (answer.allowed) {
    log("debug", "a review was allowed", fields);
    return;
  }
  const isNew = isWorthALine(`${definition.name} ${guard} ${request.namespace} ${answer.zone}`);
  log(isNew ? "info" : "debug", answer.sentence, { ...fields, code: answer.code });
}

function about(definition: AdmissionDefinition, { uid, operation, namespace, name, dryRun }: AdmissionRequest): object {
  const said = { uid, operation, namespace, object: name };
  const short = Object.entries(said).map(([field, text]) => [field, text.slice(0, 253)]);
  return { function: definition.name, ...Object.fromEntries(short), dryRun };
}

function malformed(because: string): HTTPException {
  return new HTTPException(400, { message: `This is not an AdmissionReview that can be answered: ${because}.` });
}

function show(value: unknown): string {
  if (value === undefined) return "missing";
  if (typeof value !== "string") return "no string";
  return JSON.stringify(value.slice(0, shownCharacters));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function asFields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
