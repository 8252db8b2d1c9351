/**
 * OpenTelemetry's standard environment variables, as far as its SDK does not read them itself. By its specification an invalid
 * value causes a warning and counts as not set: traces never keep a process from starting.
 */

import { showValue } from "../../functions/shared/base/escape-control.ts";
import type { Environment } from "../../functions/shared/base/settings.ts";

export const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

export interface TracingSettings {
  readonly exporter: "otlp" | "console";
  readonly protocol: "http/protobuf" | "http/json";
  readonly sampler: (typeof samplers)[number];
  /** The part of all traces that is kept, from 0 to 1, where the sampler is one of a ratio. */
  readonly ratio: number;
  readonly batch: {
    readonly scheduledDelayMillis: number;
    readonly exportTimeoutMillis: number;
    readonly maxQueueSize: number;
    readonly maxExportBatchSize: number;
  };
}

const endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/** Variables that rollout-operator took before these, and that Sluice does not support. */
const legacy = ["JAEGER_AGENT_HOST", "JAEGER_ENDPOINT", "JAEGER_SAMPLER_MANAGER_HOST_PORT"];

/**
 * The settings of traces: none if `tracing` is undefined, which is so unless one of the variables is set that make
 * rollout-operator send them. Each warning is one line.
 */
export function readTracing(environment: Environment): { tracing: TracingSettings | undefined; warnings: string[] } {
  const reader = new VariableReader(environment);
  if (reader.oneOf(["OTEL_SDK_DISABLED"], ["true", "false"], "false") === "true")
    return { tracing: undefined, warnings: [] };
  const lost = legacy.filter((name) => reader.text(name) !== "");
  const isAsked = [...endpoints, "OTEL_TRACES_EXPORTER"].some((name) => reader.text(name) !== "");
  reader.warnings.push(...lost.map((name) => `${name} is not known here; set OTEL_EXPORTER_OTLP_ENDPOINT`));
  if (!isAsked) return { tracing: undefined, warnings: reader.warnings };
  const exporter = reader.oneOf(["OTEL_TRACES_EXPORTER"], ["otlp", "console", "none"] as const, "otlp");
  const isReachable = exporter !== "otlp" || endpoints.every((name) => reader.isUrl(name));
  if (exporter === "none" || !isReachable) return { tracing: undefined, warnings: reader.warnings };
  const protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
  const tracing = {
    exporter,
    protocol: reader.oneOf(protocols, ["http/protobuf", "http/json"] as const, "http/protobuf"),
    sampler: reader.oneOf(["OTEL_TRACES_SAMPLER"], samplers, "parentbased_always_on"),
    ratio: reader.number("OTEL_TRACES_SAMPLER_ARG", 1, (value) => value >= 0 && value <= 1, "a number from 0 to 1"),
    batch: {
      scheduledDelayMillis: reader.count("OTEL_BSP_SCHEDULE_DELAY", 5_000),
      exportTimeoutMillis: reader.count("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
      maxQueueSize: reader.count("OTEL_BSP_MAX_QUEUE_SIZE", 2_048),
      maxExportBatchSize: reader.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    },
  };
  return { tracing, warnings: reader.warnings };
}

class VariableReader {
  readonly warnings: string[] = [];
  readonly #environment: Environment;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Empty counts as not set. */
  text(name: string): string {
    return this.#environment[name]?.trim() ?? "";
  }

  /** The value of the first of these variables that is set; case does not count. */
  oneOf<T extends string>(names: readonly string[], values: readonly T[], fallback: T): T {
    const name = names.find((one) => this.text(one) !== "");
    if (name === undefined) return fallback;
    const known = values.find((value) => value === this.text(name).toLowerCase());
    if (known === undefined) this.#warn(name, `write ${values.join(", ")}`, fallback);
    return known ?? fallback;
  }

  number(name: string, fallback: number, isFit: (value: number) => boolean, grammar: string): number {
    if (this.text(name) === "") return fallback;
    const value = Number(this.text(name));
    if (isFit(value)) return value;
    this.#warn(name, `write ${grammar}`, String(fallback));
    return fallback;
  }

  count(name: string, fallback: number): number {
    const isFit = (value: number) => Number.isInteger(value) && value >= 1 && value <= 2 ** 31 - 1;
    return this.number(name, fallback, isFit, "a whole number from 1");
  }

  /** True also for a variable that is not set. */
  isUrl(name: string): boolean {
    const text = this.text(name);
    if (text === "" || (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol))) return true;
    // It may have a password in it.
    this.warnings.push(`${name} is no URL; write one such as http://collector:4318. Until then no spans are sent`);
    return false;
  }

  #warn(name: string, grammar: string, fallback: string): void {
    this.warnings.push(`${name} is ${showValue(this.text(name))}; ${grammar}. Until then: ${fallback}`);
  }
}
