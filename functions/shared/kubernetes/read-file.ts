/** Reads a file in a container: `cat` by way of the subresource `exec`, over a WebSocket. */
import { type Dispatcher, WebSocket } from "undici";
import { messageOf } from "../base/error-message.ts";
import { parseFields } from "../base/fields.ts";
import { ClusterError, type ObjectKey } from "./cluster.ts";
import type { Access } from "./configuration.ts";

/** The first byte of a message says what the rest is. The next version differs in what is written to a command alone. */
const protocols = ["v4.channel.k8s.io"];
const stdout = 1;
const outcome = 3;
/** A label, and more than a caller needs of it. */
const mostFileBytes = 4_096;

/**
 * The text of the file; undefined where there is none, or where `cat` says so of it. Throws ClusterError: code 0 where the API
 * server does not open the connection, which it does not explain, or does not answer before the signal.
 */
export async function readFileInPod(
  access: Access,
  pod: ObjectKey,
  container: string,
  path: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = new URLSearchParams({ container, stdout: "true" });
  for (const word of ["cat", path]) query.append("command", word);
  const where = `/api/v1/namespaces/${encodeURIComponent(pod.namespace)}/pods/${encodeURIComponent(pod.name)}/exec`;
  const url = `${access.origin.replace(/^http/, "ws")}${access.pathPrefix}${where}?${query}`;
  const { watches: dispatcher, headers } = access;
  return await converse(new WebSocket(url, { protocols, dispatcher: dispatcher as Dispatcher, headers }), signal);
}

function converse(socket: WebSocket, signal: AbortSignal): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
  // One piece of memory, because the container chooses how many messages there are, and empty ones also cost an object.
  let text = Buffer.alloc(0);
  const fail = (message: string) =>
    reject(new ClusterError({ code: 0, reason: "Exec", message, verb: "create", resource: "pods/exec" }));
  const giveUp = () => {
    fail("no answer in time");
    socket.close();
  };
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => {
    const message = Buffer.from(data as ArrayBuffer);
    if (message[0] === stdout && text.length < mostFileBytes) text = Buffer.concat([text, message.subarray(1)]);
    if (message[0] !== outcome) return;
    const hasWorked = parseFields(message.subarray(1).toString("utf8"))?.status === "Success";
    resolve(hasWorked ? text.toString("utf8") : undefined);
    socket.close();
  });
  socket.addEventListener("error", (event) => fail(`no connection to the container: ${messageOf(event.error)}`));
  // A promise keeps to the first answer that it is given.
  socket.addEventListener("close", () => fail("the connection ended before the command did"));
  signal.addEventListener("abort", giveUp, { once: true });
  if (signal.aborted) giveUp();
  return promise.finally(() => signal.removeEventListener("abort", giveUp));
}
