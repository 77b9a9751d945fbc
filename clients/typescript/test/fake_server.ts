// A server that plays scripted answers: gRPC over HTTP/2, or gRPC-Web and REST over HTTP/1.1.
import { create, type DescMethod, type DescService, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createServer as createHttp1Server, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { v1 } from "folio-client";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";

export const TOKEN = "folio_token";

/** The facts of a refusal. */
export interface Facts {
  readonly retryAfter?: number;
  readonly violations?: readonly { readonly field: string; readonly description: string }[];
  readonly details?: Record<string, string>;
}

/** Returns the status of a refused call, as the server sends it. */
export function refusal(code: Code, reason: string, facts: Facts = {}): ConnectError {
  const { retryAfter, violations, details = {} } = facts;
  return new ConnectError("refused", code, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: "folio", metadata: details } },
    ...(retryAfter === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay: durationFromMs(retryAfter) } }]),
    ...(violations === undefined ? [] : [{ desc: BadRequestSchema, value: { fieldViolations: [...violations] } }]),
  ] as ConstructorParameters<typeof ConnectError>[3]);
}

/** Returns the status of a connection that broke. */
export function broken(): ConnectError {
  return new ConnectError("connection reset", Code.Unavailable);
}

/** A request of REST, with its body. */
export interface FormRequest {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly form: FormData;
}

type Answer = MessageInitShape<DescMethod["output"]> | Error;

/**
 * Answers each call with the next scripted answer of its method, and records the requests. An answer of a stream is an array. The
 * last answer of a method is repeated.
 */
export class FakeServer {
  readonly requests: [method: string, request: unknown][] = [];
  readonly forms: FormRequest[] = [];
  readonly tokens = new Set<string | null>();
  /** The status and the body of answers to forms, and the header `retry-after`. */
  formAnswers: { status: number; body: string; retryAfter?: string }[] = [];
  readonly #scripts = new Map<string, (Answer | Answer[])[]>();
  readonly #server: ReturnType<typeof createHttp1Server> | ReturnType<typeof createHttp2Server>;
  readonly #sessions = new Set<{ destroy(): void }>();

  /** `version`: of HTTP. */
  constructor(version: 1 | 2) {
    const rpcs = connectNodeAdapter({ routes: (router) => this.#routes(router) });
    this.#server = version === 2 ? createHttp2Server(rpcs) : createHttp1Server((request, response) => {
      if (request.url?.startsWith("/v0/") === true) return void this.#form(request, response);
      rpcs(request, response);
    });
    this.#server.on(version === 2 ? "session" : "connection", (session: { destroy(): void }) => this.#sessions.add(session));
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
  }

  script<M extends DescMethod>(method: M, ...answers: (MessageInitShape<M["output"]> | Error)[]): void {
    this.#scripts.set(method.name, answers);
  }

  scriptStream<M extends DescMethod>(method: M, ...answers: (MessageInitShape<M["output"]> | Error)[][]): void {
    this.#scripts.set(method.name, answers);
  }

  /** Returns the requests of a method. */
  of<T = Record<string, unknown>>(name: string): T[] {
    return this.requests.filter(([method]) => method === name).map(([, request]) => request as T);
  }

  #routes(router: ConnectRouter): void {
    const services = Object.values(v1 as Record<string, unknown>) as DescService[];
    for (const service of services.filter((value) => value.kind === "service")) {
      for (const method of service.methods) this.#route(router, method);
    }
  }

  #route(router: ConnectRouter, method: DescMethod): void {
    switch (method.methodKind) {
      case "unary":
        router.rpc(method as DescMethod & { methodKind: "unary" }, (request, context) => {
          return one(this.#next(method, request, context)) as never;
        });
        break;
      case "client_streaming":
        router.rpc(method as DescMethod & { methodKind: "client_streaming" }, async (requests, context) => {
          const parts: unknown[] = [];
          for await (const part of requests) parts.push(part);
          return one(this.#next(method, parts, context)) as never;
        });
        break;
      case "server_streaming": {
        const next = (request: unknown, context: HandlerContext) => this.#next(method, request, context);
        router.rpc(method as DescMethod & { methodKind: "server_streaming" }, async function* (request, context) {
          for (const answer of [next(request, context)].flat()) yield one(answer) as never;
        });
        break;
      }
      default:
        throw new Error(`unexpected kind of ${method.name}`);
    }
  }

  #next(method: DescMethod, request: unknown, context: HandlerContext): Answer | Answer[] {
    this.requests.push([method.name, request]);
    this.tokens.add(context.requestHeader.get("authorization"));
    const answers = this.#scripts.get(method.name) ?? [];
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === undefined) throw new Error(`no answer of ${method.name}`);
    return answer;
  }

  async #form(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body: Buffer[] = [];
    for await (const chunk of request) body.push(chunk as Buffer);
    const headers = { "content-type": request.headers["content-type"] ?? "" };
    const form = await new Response(Buffer.concat(body), { headers }).formData();
    this.forms.push({ path: request.url ?? "", headers: request.headers, form });
    const answer = this.formAnswers.length > 1 ? this.formAnswers.shift() : this.formAnswers[0];
    if (answer === undefined) throw new Error("no answer of a form");
    if (answer.retryAfter !== undefined) response.setHeader("retry-after", answer.retryAfter);
    response.writeHead(answer.status).end(answer.body);
  }
}

function one(answer: Answer | Answer[]): Answer {
  if (answer instanceof Error) throw answer;
  return answer as Answer;
}

/** Returns an event of a stream of a turn. */
export function event(number: number, kind: MessageInitShape<typeof v1.EventSchema>["kind"]): { event: v1.Event } {
  return { event: create(v1.EventSchema, { turnId: "turn", number: BigInt(number), kind: kind ?? { case: undefined } }) };
}
