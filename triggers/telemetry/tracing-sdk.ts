/** OpenTelemetry's SDK, put together from its smallest packages. Loaded only where traces are asked for. */
import { context, DiagLogLevel, diag, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { setGlobalErrorHandler, W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ConsoleSpanExporter,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/**
 * From now on spans are kept, and sent in batches. Where, with which headers and as which service, the SDK reads from the
 * environment. `onTrouble` is called with what it finds wrong there, and of batches that could not be sent.
 */
export function startSdk(
  settings: TracingSettings,
  version: string,
  onTrouble: (message: string) => void,
): { shutdown(): Promise<void> } {
  const report = (...parts: unknown[]) => onTrouble(`OpenTelemetry: ${parts.map(String).join(" ")}`);
  const silent = () => {};
  const logger = { error: report, warn: report, info: silent, debug: silent, verbose: silent };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  setGlobalErrorHandler((error) => onTrouble(`spans could not be sent: ${messageOf(error)}`));
  const named = resourceFromAttributes({ "service.name": "sluice", "service.version": version });
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(named)
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: samplerOf(settings),
    spanProcessors: [new BatchSpanProcessor({ exporter: exporterOf(settings), ...settings.batch })],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
  return provider;
}

function exporterOf({ exporter, protocol }: TracingSettings): SpanExporter {
  if (exporter === "console") return new ConsoleSpanExporter();
  return protocol === "http/json" ? new JsonExporter() : new ProtobufExporter();
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const root = rootSamplerOf(sampler.replace("parentbased_", ""), ratio);
  return sampler.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}

function rootSamplerOf(name: string, ratio: number): Sampler {
  if (name === "always_off") return new AlwaysOffSampler();
  return name === "always_on" ? new AlwaysOnSampler() : new TraceIdRatioBasedSampler(ratio);
}
