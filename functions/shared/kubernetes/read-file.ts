/** Reads a file in a container: `cat` by way of the subresource `exec`, over a WebSocket. */
import { type Dispatcher, WebSocket } from "undici";
import { messageOf } from "../base/error-message.ts";
import { parseFields } from "../base/fields.ts";
import { ClusterError, type ObjectKey } from "./cluster.ts";
import type { Access } from "./configuration.ts";

/** The first byte of a message is its channel. The next version of the protocol differs only in input to the command. */
const protocols = ["v4.channel.k8s.io"];
const stdout = 1;
const outcome = 3;
/** The most bytes of a file, which is more than a label has. */
const mostFileBytes = 4_096;

/**
 * The text of the file; undefined if `cat` fails. Throws ClusterError with code 0 if the API server does not open the connection,
 * which it does not explain, or does not answer before the signal.
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
  // One buffer, because the container chooses the number of messages, and even an empty one costs an object.
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
  // Has no effect on a promise that is settled.
  socket.addEventListener("close", () => fail("the connection ended before the command did"));
  signal.addEventListener("abort", giveUp, { once: true });
  if (signal.aborted) giveUp();
  return promise.finally(() => signal.removeEventListener("abort", giveUp));
}
