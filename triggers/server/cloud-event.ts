/**
 * The endpoint for CloudEvents over HTTP. An event is a hint: only the key of its object is taken. The worker
 * behind the queue reads the object.
 */

import { type CloudEvent, HTTP } from "cloudevents";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { isNamespaceName, isObjectName } from "../../functions/shared/base/dns-names.ts";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { fieldsOf } from "../../functions/shared/base/fields.ts";
import { type KnownResource, resources } from "../../functions/shared/kubernetes/cluster.ts";
import type { EventResult, Reporting } from "../telemetry/logs-and-metrics.ts";
import { inEventSpan } from "../telemetry/tracing-spans.ts";
import type { Enqueuer } from "../workqueue/enqueue.ts";
import { dueSuffix, pingType } from "../workqueue/sweep.ts";
import type { Bodies } from "./bodies.ts";

export interface EventEndpointOptions {
  readonly enqueuer: Pick<Enqueuer, "changed"> & {
    /** For a sweep. False when it was refused. */
    tick(): boolean;
    /** For the functions that have a schedule of their own. False when it was refused. */
    due(): boolean;
  };
  /** The types of objects whose events trigger a function. */
  readonly watches: ReadonlySet<KnownResource>;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  /** Why events should come later, or undefined when they are welcome. */
  notReady(): string | undefined;
  readonly bodies: Bodies;
  /** The largest event that is read, in bytes. */
  readonly bodyLimitBytes: number;
  readonly reporting: Pick<Reporting, "event">;
}

const apiServerType = /^dev\.knative\.apiserver\.(ref|resource)\.(add|update|delete)$/;
const requiredAttributes = ["specversion", "id", "source", "type"] as const;
const structuredType = "application/cloudevents+json";
const batchType = /^application\/cloudevents-batch(\+|$)/;
/** In seconds: sources try again for three seconds by themselves, brokers for longer. */
const retryAfterSeconds = "1";

/** Makes the handler. It answers 204 without a body, or throws an HTTPException with a message. */
export function createEventEndpoint(options: EventEndpointOptions): (c: Context) => Promise<Response> {
  return async function receiveEvent(c) {
    const reason = options.notReady();
    if (reason !== undefined) throw refused(options, reason);
    let event: CloudEvent<unknown>;
    let result: EventResult;
    try {
      event = await readEvent(c, options);
      result = await inEventSpan(
        (name) => c.req.header(name),
        event,
        () => queue(event, options),
      );
    } catch (error) {
      options.reporting.event(error instanceof HTTPException && error.status === 503 ? "refused" : "malformed");
      throw error;
    }
    if (result === "refused") throw refused(options, "too many objects are queued already");
    options.reporting.event(result);
    return c.body(null, 204);
  };
}

/** Counts the refusal, and makes the answer: 503, with the time after which the sender should try again. */
function refused({ reporting }: EventEndpointOptions, reason: string): HTTPException {
  reporting.event("refused");
  const headers = { "content-type": "text/plain; charset=UTF-8", "retry-after": retryAfterSeconds };
  return new HTTPException(503, { res: new Response(`Send it again later: ${reason}.`, { status: 503, headers }) });
}

/** Enqueues the keys that the event concerns. Throws HTTPException 400 if it should name an object, and does not. */
function queue(
  event: CloudEvent<unknown>,
  { enqueuer, watches, namespaces }: EventEndpointOptions,
): ReturnType<Enqueuer["changed"]> {
  if (event.type === pingType) {
    const isTaken = event.source.endsWith(dueSuffix) ? enqueuer.due() : enqueuer.tick();
    return isTaken ? "queued" : "refused";
  }
  if (!apiServerType.test(event.type)) return "ignored";
  const { kind, apiVersion, namespace, name } = readKey(event);
  const resource = resourceOf(required("kind", kind), apiVersion);
  if (resource === undefined || !watches.has(resource)) return "ignored";
  const { isNamespaced } = resources[resource];
  const where = isNamespaced ? required("namespace", namespace) : "";
  const object = required("name", name);
  if (isNamespaced && !isNamespaceName(where))
    throw malformed(`its namespace ${show(where)} is no name of a namespace`);
  if (!isObjectName(object)) throw malformed(`its name ${show(object)} is no name of an object`);
  // Cluster-scoped objects have no namespace, so that the bound on namespaces does not apply.
  if (isNamespaced && namespaces !== undefined && !namespaces.includes(where)) return "ignored";
  return enqueuer.changed(resource, { namespace: where, name: object });
}

function resourceOf(kind: string, apiVersion: string | undefined): KnownResource | undefined {
  const group = apiVersion?.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
  // Other API groups may have a kind StatefulSet. If the event names the API group, it must match.
  const matches = (resource: KnownResource) => apiVersion === undefined || resources[resource].group === group;
  return (Object.keys(resources) as KnownResource[]).find((one) => resources[one].kind === kind && matches(one));
}

/** From the extensions, else from the data: a Reference is flat, a Resource keeps its names in its metadata. */
function readKey(event: CloudEvent<unknown>) {
  const data = fieldsOf(decoded(event.data)) ?? {};
  const metadata = fieldsOf(data.metadata) ?? {};
  const textOf = (label: string, ...values: unknown[]): string | undefined => {
    const value = values.find((one) => one !== undefined && one !== "");
    if (value === undefined || typeof value === "string") return value;
    throw malformed(`its ${label} is not a string`);
  };
  return {
    kind: textOf("kind", event.kind, data.kind),
    apiVersion: textOf("apiVersion", event.apiversion, data.apiVersion),
    namespace: textOf("namespace", event.namespace, data.namespace, metadata.namespace),
    name: textOf("name", event.name, data.name, metadata.name),
  };
}

/**
 * The event of a request, in binary or structured mode.
 *
 * @throws HTTPException 400 for a request that is no event, 415 for a content type without events.
 */
async function readEvent(c: Context, { bodies, bodyLimitBytes }: EventEndpointOptions): Promise<CloudEvent<unknown>> {
  const headers = c.req.header();
  // The SDK compares five content types letter by letter: with parameters or capitals it would leave the data unread.
  const mediaType = (headers["content-type"] ?? "").replace(/;.*$/s, "").trim().toLowerCase();
  const isStructured = mediaType === structuredType;
  const isBinary = headers["ce-specversion"] !== undefined || headers["ce-id"] !== undefined;
  if (!isStructured) requireBinary(mediaType, isBinary);
  const isJson = mediaType === "" || mediaType === "application/json" || mediaType.endsWith("+json");
  // The data of a PingSource may be of any type; keys are only read from JSON.
  const body = isJson ? await bodies.json(c, bodyLimitBytes, malformed) : undefined;
  const attributes = isStructured ? (fieldsOf(body) ?? {}) : withoutPrefix(headers);
  requireAttributes(attributes);
  const message = {
    headers: { ...headers, "content-type": isStructured ? structuredType : "application/json" },
    // Nothing is read from data that is no object, and the SDK throws for numbers.
    body: isStructured ? attributes : (fieldsOf(body) ?? {}),
  };
  return toEvent(message);
}

/** Throws unless a request of another content type has an event in its headers. */
function requireBinary(mediaType: string, hasHeaders: boolean): void {
  if (batchType.test(mediaType)) throw malformed("batches are not accepted; send one event at a time");
  if (mediaType.startsWith("application/cloudevents")) throw unsupported(mediaType);
  if (hasHeaders) return;
  if (mediaType !== "application/json") throw unsupported(mediaType);
  throw malformed("it has neither ce- headers nor the content type application/cloudevents+json");
}

/** The SDK invents an id, a time and a version if there are none, so that required attributes are checked before. */
function requireAttributes(attributes: Readonly<Record<string, unknown>>): void {
  for (const name of requiredAttributes) {
    const value = attributes[name];
    if (value === undefined || value === "") throw malformed(`it has no ${name}`);
    if (typeof value !== "string") throw malformed(`its ${name} is not a string`);
  }
  if (attributes.specversion !== "1.0") throw malformed(`its specversion ${show(attributes.specversion)} is not "1.0"`);
}

function toEvent(message: { headers: Record<string, string>; body: unknown }): CloudEvent<unknown> {
  let event: CloudEvent<unknown>;
  let isValid: boolean;
  try {
    // An array only for batches, which are refused before.
    event = HTTP.toEvent(message) as CloudEvent<unknown>;
    // It throws for most mistakes, and returns false for some.
    isValid = event.validate();
  } catch (error) {
    throw malformed(messageOf(error));
  }
  if (!isValid) throw malformed("it does not follow the specification");
  return event;
}

function withoutPrefix(headers: Readonly<Record<string, string>>): Record<string, string> {
  const attributes = Object.entries(headers).filter(([name]) => name.startsWith("ce-"));
  return Object.fromEntries(attributes.map(([name, value]) => [name.slice("ce-".length), value]));
}

/** The SDK makes an array of 32-bit integers of base64, one for each byte. */
function decoded(data: unknown): unknown {
  if (!(data instanceof Uint32Array)) return data;
  try {
    return JSON.parse(Buffer.from(data).toString("utf8"));
  } catch {
    return undefined;
  }
}

function required(label: string, value: string | undefined): string {
  if (value === undefined) throw malformed(`it does not say the ${label} of its object`);
  return value;
}

function malformed(because: string): HTTPException {
  return new HTTPException(400, { message: `This is not a CloudEvent that can be accepted: ${because}.` });
}

function unsupported(mediaType: string): HTTPException {
  const sent = mediaType === "" ? "no content type" : `the content type ${show(mediaType)}`;
  const message = `Send ${structuredType}, or application/json with ce- headers, and not ${sent}.`;
  return new HTTPException(415, { message });
}

function show(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 80));
}
