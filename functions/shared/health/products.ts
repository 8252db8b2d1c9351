/** The products whose pods can be asked whether one may go: a row for each. */

import type { ExpectedField, ProductName } from "../annotations/health.ts";
import { fieldsOf, parseFields } from "../base/fields.ts";
import type { PodAnswer } from "../http/pod-http.ts";
import type { Health } from "../ledger/health-rule.ts";
import { healthByStatus, longestDetail, unknownHealth } from "./answer.ts";

export interface Product {
  /** What an answer says. Never throws. */
  read(answer: PodAnswer, expected: ExpectedField | undefined): Health;
}

export const products: Readonly<Record<ProductName, Product>> = {
  rabbitmq: { read: readRabbitmq },
  http: { read: readHttp },
};

const namedQueues = 5;
const longestQueueName = 80;

/**
 * The check of the management plugin answers 200 and `{"status":"ok"}`, or 503 and the queues that would lose their majority.
 * Any other 200 is not RabbitMQ's, and no good answer.
 */
function readRabbitmq(answer: PodAnswer): Health {
  const fields = parseFields(answer.body);
  const byStatus = readStatus(answer);
  if (byStatus.state === "good" && fields?.status !== "ok")
    return unknownHealth(`HTTP ${answer.status}, and no answer of RabbitMQ's: ${answer.body.trim()}`);
  if (byStatus.state !== "bad" || fields?.status !== "failed" || !Array.isArray(fields.queues)) return byStatus;
  const names = fields.queues.flatMap((queue) => nameIn(queue) ?? []);
  if (names.length === 0) return byStatus;
  const more = names.length > namedQueues ? ` and ${names.length - namedQueues} more` : "";
  const named = names.slice(0, namedQueues).join(", ");
  return { state: "bad", detail: `without this node these would lose their majority: ${named}${more}` };
}

function nameIn(queue: unknown): string | undefined {
  const { readable_name: readable, name } = fieldsOf(queue) ?? {};
  const text = typeof readable === "string" ? readable : name;
  return typeof text === "string" && text !== "" ? text.slice(0, longestQueueName) : undefined;
}

/** The status alone, or a field of the body, if the status means success. */
function readHttp(answer: PodAnswer, expected: ExpectedField | undefined): Health {
  const byStatus = readStatus(answer);
  if (expected === undefined || byStatus.state !== "good") return byStatus;
  const { path, value } = expected;
  const place = path.join(".");
  let at: unknown = parseFields(answer.body);
  for (const name of path) {
    const fields = fieldsOf(at) ?? {};
    at = Object.hasOwn(fields, name) ? fields[name] : undefined;
  }
  // By its type null is an object as well.
  if (at === undefined || typeof at === "object")
    return unknownHealth(`HTTP ${answer.status} without a field ${place}: ${answer.body.trim()}`);
  if (String(at) === value) return { state: "good", detail: `${place} is ${value}` };
  return { state: "bad", detail: `${place} is ${String(at)}, and not ${value}`.slice(0, longestDetail) };
}

/** A pod that redirects has answered something else, and no policy for pods without an answer lets it go. */
function readStatus(answer: PodAnswer): Health {
  const { status } = answer;
  if (status < 300 || status > 399) return healthByStatus(answer);
  return { state: "bad", detail: `HTTP ${status}: the URL leads elsewhere, and no redirect is followed` };
}
