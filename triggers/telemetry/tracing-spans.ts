/** The spans of the servers: their names, and their parents, which the caller's headers name. */

import type { AdmissionAnswer, AdmissionRequest } from "../../functions/shared/admission/definition.ts";
import type { Fields } from "../../functions/shared/base/fields.ts";
import { callerOf, inSpan, type SpanOptions, under } from "../../functions/shared/base/spans.ts";
import { isGroup, type Key } from "../../functions/shared/contract/keys.ts";

type Header = (name: string) => string | undefined;

/** The most characters of an attribute, because the sender of an event may write as much as the body may hold. */
const longest = 256;

/**
 * Runs the queueing of an event in a span. Its parent is the span of the request. If no header names one, it is that of the
 * event, by CloudEvents' extension for distributed tracing; otherwise the event's span is linked.
 */
export function inEventSpan<Result extends string>(
  header: Header,
  event: Fields,
  queue: () => Result,
): Promise<Result> {
  const describe = (): SpanOptions => {
    const [sender, maker] = [callerOf(traceOf(header)), callerOf(event)];
    const links = sender !== undefined && maker !== undefined && maker.spanId !== sender.spanId ? [maker] : [];
    const fields = { id: event.id, source: event.source, type: event.type, subject: event.subject };
    const entries = Object.entries(fields).flatMap(([name, value]) =>
      typeof value === "string" ? [[`cloudevents.event_${name}`, value.slice(0, longest)]] : [],
    );
    const attributes = { "http.request.method": "POST", ...Object.fromEntries(entries) };
    return { kind: "consumer", attributes, parent: under(sender ?? maker), links };
  };
  return inSpan("receive event", describe, async (span) => {
    const result = queue();
    span.setAttribute("sluice.event.result", result);
    return result;
  });
}

/** Runs the decision on a review in a span, which is a child of the API server's span if its request names one. */
export function inReviewSpan(
  header: Header,
  by: string,
  request: AdmissionRequest,
  decide: () => Promise<AdmissionAnswer>,
): Promise<AdmissionAnswer> {
  const describe = (): SpanOptions => {
    const { path, namespace, name, uid, operation, subresource, dryRun } = request;
    const attributes = {
      "http.request.method": "POST",
      "url.path": path,
      "faas.name": by,
      "k8s.namespace.name": namespace.slice(0, longest),
      "sluice.object": name.slice(0, longest),
      "sluice.review.uid": uid.slice(0, longest),
      "sluice.review.operation": operation.slice(0, longest),
      "sluice.review.subresource": subresource.slice(0, longest),
      "sluice.review.dry_run": dryRun,
    };
    return { kind: "server", attributes, parent: under(callerOf(traceOf(header))) };
  };
  return inSpan(`review ${by}`, describe, async (span) => {
    const answer = await decide();
    const { guard, allowed, zone = "" } = answer;
    span.setAttributes({ "sluice.guard": guard, "sluice.zone": zone, "sluice.allowed": allowed });
    return answer;
  });
}

/** Runs a reconcile of a key in a span of its own. It is linked to the spans that enqueued it, because none of them waits. */
export function inReconcileSpan<T>(
  by: string,
  key: Key,
  { sweep, triggeredBy = [] }: { readonly sweep: boolean; readonly triggeredBy?: NonNullable<SpanOptions["links"]> },
  reconcile: () => Promise<T>,
): Promise<T> {
  const describe = (): SpanOptions => {
    const which = isGroup(key) ? { "sluice.group": key.group } : { "sluice.object": `${key.resource}/${key.name}` };
    const where = { "k8s.namespace.name": key.namespace, ...which };
    return { root: true, links: triggeredBy, attributes: { "faas.name": by, "sluice.sweep": sweep, ...where } };
  };
  return inSpan(`pass ${by}`, describe, reconcile);
}

function traceOf(header: Header): Fields {
  return { traceparent: header("traceparent"), tracestate: header("tracestate") };
}
