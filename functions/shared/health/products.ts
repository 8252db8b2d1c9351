/** What can be asked whether a pod may go: a row for each product. */

import type { ProductName } from "../annotations/health-products.ts";
import type { PodAnswer } from "../http/pod-http.ts";
import type { Health } from "../ledger/health-rule.ts";
import { healthByStatus, unknownHealth } from "./answer.ts";

/** A field of a JSON object, and what it must say. */
interface Expected {
  readonly path: readonly string[];
  readonly value: string;
}

export interface Product {
  /** What an answer says. Never throws. */
  read(answer: PodAnswer, expected: Expected | undefined): Health;
}

export const products: Readonly<Record<ProductName, Product>> = {
  rabbitmq: { read: readRabbitmq },
  http: { read: readHttp },
};

const namedQueues = 5;
const longestName = 80;
const longestWords = 300;

/**
 * The check of the management plugin says 200 and `{"status":"ok"}`, or 503 and the queues that would lose their majority. Any
 * other 200 is not RabbitMQ's, and no yes.
 */
function readRabbitmq(answer: PodAnswer): Health {
  const said = fieldsIn(answer.body);
  const byStatus = readStatus(answer);
  if (byStatus.state === "good" && said?.status !== "ok")
    return unknownHealth(`HTTP ${answer.status}, and no answer of RabbitMQ's: ${answer.body.trim()}`);
  if (byStatus.state !== "bad" || said?.status !== "failed" || !Array.isArray(said.queues)) return byStatus;
  const names = said.queues.flatMap((queue) => nameIn(queue) ?? []);
  if (names.length === 0) return byStatus;
  const more = names.length > namedQueues ? ` and ${names.length - namedQueues} more` : "";
  const named = names.slice(0, namedQueues).join(", ");
  return { state: "bad", words: `without this node these would lose their majority: ${named}${more}` };
}

function nameIn(queue: unknown): string | undefined {
  if (typeof queue !== "object" || queue === null) return undefined;
  const { readable_name: readable, name } = queue as { readonly readable_name?: unknown; readonly name?: unknown };
  const text = typeof readable === "string" ? readable : name;
  return typeof text === "string" && text !== "" ? text.slice(0, longestName) : undefined;
}

/** The status alone, or a field of what was said with a status that means success. */
function readHttp(answer: PodAnswer, expected: Expected | undefined): Health {
  const byStatus = readStatus(answer);
  if (expected === undefined || byStatus.state !== "good") return byStatus;
  const { path, value } = expected;
  const place = path.join(".");
  let at: unknown = fieldsIn(answer.body);
  for (const name of path) at = isFields(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  if (at === undefined || at === null || typeof at === "object")
    return unknownHealth(`HTTP ${answer.status} without a field ${place}: ${answer.body.trim()}`);
  if (String(at) === value) return { state: "good", words: `${place} is ${value}` };
  return { state: "bad", words: `${place} is ${String(at)}, and not ${value}`.slice(0, longestWords) };
}

/** A pod that redirects has answered, and not what was asked: no policy for pods that give no answer lets it go. */
function readStatus(answer: PodAnswer): Health {
  const { status } = answer;
  if (status < 300 || status > 399) return healthByStatus(answer);
  return { state: "bad", words: `HTTP ${status}: the URL leads elsewhere, and no redirect is followed` };
}

function fieldsIn(body: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
