/** Settings as JSON Schema: as far as that can express their grammar, Helm refuses a value that does not parse. */
import type { Setting } from "../../../functions/shared/base/settings.ts";

/** The settings that a user of the chart does not set as such, and why. */
const apart: Readonly<Record<string, string>> = {
  FUNCTION: "the value `functions` is",
  NAMESPACE: "the value `namespaces` is",
  KUBECONFIG: "a pod has its account",
  PORT: "the Service and the probes name it",
  TLS_PORT: "the Service names it",
  VIEWS: "a process that stays watches",
  WATCH_IDLE: "it is for VIEWS=awake",
  TLS_SECRET_NAME: "the Role and the Secret name it",
  TLS_DNS_NAME: "it is the Service's",
  TLS_CERT_FILE: "the pod has no such volume",
  TLS_KEY_FILE: "the pod has no such volume",
  TLS_CLIENT_CA_FILE: "the pod has no such volume",
  ZONE_TRACKER_NAME: "the Role names it",
  SKIP_LABEL_MARKER: "the Role has no right to it",
};

/** The schema of the value `settings`: these settings, and no other key. */
export function settingsSchema(settings: readonly Setting<unknown>[]): Readonly<Record<string, unknown>> {
  const own = settings.filter(({ name }) => !(name in apart));
  return {
    type: ["object", "null"],
    description: "Environment variables of Sluice, by name",
    additionalProperties: false,
    properties: Object.fromEntries(own.map((one) => [one.name, schemaOf(one)])),
  };
}

/** The checks of a setting that JSON Schema can express. They refuse no value that parses. */
export function schemaOf({ meaning, fallback, grammar }: Setting<unknown>): Readonly<Record<string, unknown>> {
  const description = `${meaning}${fallback === "" ? "" : ` (default: ${fallback})`}`;
  return { description, ...shapeOf(grammar) };
}

const duration = "^ *(0|[+]?([0-9]+([.][0-9]*)?(ns|us|µs|μs|ms|s|m|h|d|w|y))+) *$";

function shapeOf(grammar: string): Readonly<Record<string, unknown>> {
  const [, least, most] = /^an integer from (\d+) to (\d+)$/.exec(grammar) ?? [];
  if (least !== undefined)
    return {
      type: ["integer", "string", "null"],
      minimum: Number(least),
      maximum: Number(most),
      pattern: "^ *[0-9]* *$",
    };
  if (/\bduration\b/.test(grammar)) {
    const word = / or ([a-z]+)$/.exec(grammar)?.[1];
    const pattern = word === undefined ? `${duration}|^ *$` : `${duration}|^${word}$|^ *$`;
    return { type: ["string", "integer", "null"], pattern };
  }
  const choices = /^[a-z]+((, [a-z]+)* or [a-z]+|(, [a-z]+)+)$/.test(grammar) ? grammar.split(/, | or /) : [];
  if (choices.length === 0) return { type: ["string", "integer", "null"] };
  const isBoolean = choices.includes("true");
  return { enum: [...choices, ...(isBoolean ? [true, false] : []), "", null] };
}
