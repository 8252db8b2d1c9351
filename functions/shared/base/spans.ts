/**
 * Spans, by OpenTelemetry's API. Besides this file only the one that starts the SDK imports it. Until {@link keepSpans} is
 * called, these functions do nothing, not even the API's own no-ops, because a review is too short for that.
 */

import {
  type Attributes,
  type Context,
  context,
  INVALID_SPAN_CONTEXT,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { messageOf } from "./error-message.ts";

export type { SpanContext };

/** Records nothing. */
const nothing = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);
let isKept = false;

/** Records spans from now on, because the SDK has been started. */
export function keepSpans(): void {
  isKept = true;
}

/** As many links as a span keeps, by OpenTelemetry's default. */
const mostLinks = 128;
const none: readonly SpanContext[] = [];

export interface SpanOptions {
  /** `server` and `consumer` for what came from others, `client` for what goes to them; absent: what we do ourselves. */
  readonly kind?: "server" | "consumer" | "client";
  readonly attributes?: Attributes;
  /** Absent: the span that is active, if one is. */
  readonly parent?: Context;
  /** Spans that led here without being waited for. */
  readonly links?: readonly SpanContext[];
  /** True for a span that is part of no other, whatever is active. */
  readonly root?: boolean;
}

const kinds = {
  server: SpanKind.SERVER,
  consumer: SpanKind.CONSUMER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
} as const;

/** Runs `work` in a span that ends with it and records what it throws. Settles as `work` does. */
export function inSpan<T>(name: string, describe: () => SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  if (!isKept) return work(nothing);
  const { kind = "internal", attributes = {}, parent = context.active(), links = [], root = false } = describe();
  const linked = links.map((one) => ({ context: one }));
  // Requested each time, because the SDK of a bundle has an API of its own, and only global objects are common to both.
  const tracer = trace.getTracer("sluice");
  return tracer.startActiveSpan(name, { kind: kinds[kind], attributes, links: linked, root }, parent, async (span) => {
    try {
      return await work(span);
    } catch (error) {
      const message = messageOf(error);
      span.setAttribute("error.type", error instanceof Error ? error.name : "Error");
      span.setStatus({ code: SpanStatusCode.ERROR, message });
      throw error;
    } finally {
      span.end();
    }
  });
}

/** Adds to the span that is active, if one is. */
export function describeSpan(attributes: Attributes): void {
  if (isKept) trace.getActiveSpan()?.setAttributes(attributes);
}

/** The span that is active, as something to link to; empty when none is. */
export function activeSpans(): readonly SpanContext[] {
  const active = isKept ? trace.getActiveSpan()?.spanContext() : undefined;
  return active === undefined ? none : [active];
}

/** Both lists together, cut to {@link mostLinks}. */
export function joinSpans(some: readonly SpanContext[], more: readonly SpanContext[]): readonly SpanContext[] {
  if (more.length === 0 || some.length >= mostLinks) return some;
  const known = new Set(some.map(({ spanId }) => spanId));
  return [...some, ...more.filter(({ spanId }) => !known.has(spanId))].slice(0, mostLinks);
}

/** Runs `work` as if in the first of these spans, which may have ended; in none where there is none. */
export function asPartOf<T>([first]: readonly SpanContext[], work: () => T): T {
  return context.with(first === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, first), work);
}

/** The caller's span, by `traceparent` and `tracestate` of W3C Trace Context; undefined if they name none. */
export function callerOf(fields: Readonly<Record<string, unknown>>): SpanContext | undefined {
  return trace.getSpanContext(propagation.extract(ROOT_CONTEXT, fields));
}

/** A context in which a span is a child of `parent`. */
export function under(parent: SpanContext | undefined): Context {
  return parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
}

/** `traceparent` and `tracestate` for a request that is sent in the span that is active; empty when none is. */
export function callerHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  if (isKept) propagation.inject(context.active(), headers);
  return headers;
}
