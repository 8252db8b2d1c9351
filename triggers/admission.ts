/**
 * The door for admission reviews. What is no review is answered with a status and a sentence; a review is always answered with
 * a review, whatever happens to the function that judges it: the API server gives its users our sentence, and not its own.
 */
import type { Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import type { AdmissionAnswer, AdmissionDefinition, AdmissionRequest } from "../functions/shared/definition.ts";
import type { Reporting } from "./reporting.ts";

export interface AdmissionDoorOptions {
  readonly admissions: readonly AdmissionDefinition[];
  readonly reporting: Pick<Reporting, "log" | "metrics">;
}

/** An API server takes objects up to 3 MB, and a review may hold two of them. */
const bodyLimitBytes = 8 * 1024 * 1024;
const versions = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
const shownCharacters = 80;

/** Adds a route for each function that judges reviews. Errors are HTTPExceptions whose message is one sentence. */
export function serveAdmissions(app: Hono, { admissions, reporting }: AdmissionDoorOptions): void {
  const limit = bodyLimit({
    maxSize: bodyLimitBytes,
    onError: (c) => c.text(`The body is larger than ${bodyLimitBytes} bytes.`, 413),
  });
  for (const definition of admissions) {
    app.post(definition.path, limit, async (c) => {
      const { apiVersion, request } = readReview(await readJson(c));
      const answer = await judge(definition, request, reporting);
      report(definition, request, answer, reporting);
      return c.json({ apiVersion, kind: "AdmissionReview", response: render(request.uid, answer) });
    });
    app.all(definition.path, (c) => c.text("POST an AdmissionReview here.", 405, { allow: "POST" }));
  }
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
function readReview(body: unknown): { apiVersion: string; request: AdmissionRequest } {
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
      namespace: textOf(fields.namespace),
      name: textOf(fields.name),
      dryRun: fields.dryRun === true,
      object: fields.object,
      oldObject: fields.oldObject,
    },
  };
}

/** What the function says, or what its row in the table of open and closed doors says when it breaks. */
async function judge(
  definition: AdmissionDefinition,
  request: AdmissionRequest,
  reporting: AdmissionDoorOptions["reporting"],
): Promise<AdmissionAnswer> {
  try {
    return await definition.review(request);
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    reporting.log("error", `a review could not be judged: ${what}`, { ...about(definition, request), err: error });
    const sentence = `${definition.name} could not judge this: ${what}`;
    if (definition.whenBroken === "open") return { allowed: true, warnings: [sentence] };
    return { allowed: false, guard: "broken", code: 500, reason: "InternalError", field: "", sentence };
  }
}

function render(uid: string, answer: AdmissionAnswer): object {
  if (answer.allowed) {
    return { uid, allowed: true, ...(answer.warnings.length > 0 ? { warnings: answer.warnings } : {}) };
  }
  const { code, reason, field, sentence } = answer;
  const details =
    field === "" ? {} : { details: { causes: [{ reason: "FieldValueInvalid", field, message: sentence }] } };
  return { uid, allowed: false, status: { status: "Failure", code, reason, message: sentence, ...details } };
}

function report(
  definition: AdmissionDefinition,
  request: AdmissionRequest,
  answer: AdmissionAnswer,
  { log, metrics }: AdmissionDoorOptions["reporting"],
): void {
  const guard = answer.allowed ? "allowed" : answer.guard;
  metrics.verdicts.inc({ function: definition.name, guard });
  const fields = { ...about(definition, request), guard };
  if (answer.allowed) log("debug", "a review was allowed", fields);
  else log("info", answer.sentence, { ...fields, code: answer.code });
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
