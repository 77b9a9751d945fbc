"""A server for tests that speaks the part of Qdrant's gRPC interface that Folio uses.

The engine is that of Qdrant (PyPI `qdrant-edge-py`), so that scores, filters, conditional updates and the write-ahead log
are the real ones. The network layer, replication and the optimizer of a Qdrant server are not present.

Arguments: the folder of the proto file, the data folder, the port, and optionally the API key, the certificate chain and
the private key.
"""

import importlib
import json
import pathlib
import signal
import sys
import tempfile
import threading
import uuid
from concurrent import futures

import grpc
import qdrant_edge as edge
from grpc_tools import protoc

VERSION = "1.20.0"
MESSAGE_BYTES = 64 * 1024 * 1024
THREADS = 16
CONFIGURATION = "vectors.json"
# The text and the seconds of a delay of the requests that contain the text.
DELAY = pathlib.Path(__file__).parent / "delay.json"


def compiled(folder):
    """Compiles the proto file and returns its modules of messages and services."""
    target = tempfile.mkdtemp(prefix="qdrant-proto-")
    arguments = ["protoc", f"-I{folder}", f"--python_out={target}", f"--grpc_python_out={target}", "qdrant.proto"]
    if protoc.main(arguments) != 0:
        raise SystemExit("the proto file cannot be compiled")
    sys.path.insert(0, target)
    return importlib.import_module("qdrant_pb2"), importlib.import_module("qdrant_pb2_grpc")


wire, services = compiled(sys.argv[1])


class Refused(Exception):
    """A request that the server refuses, with the status code of the response."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def plain(value):
    """Returns the Python value of a payload value."""
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [plain(entry) for entry in value.list_value.values]
    if kind == "struct_value":
        return {key: plain(entry) for key, entry in value.struct_value.fields.items()}
    return None if kind in (None, "null_value") else getattr(value, kind)


def fill(value, source):
    """Sets a payload value of the wire format."""
    if source is None:
        value.null_value = 0
    elif isinstance(source, bool):
        value.bool_value = source
    elif isinstance(source, int):
        value.integer_value = source
    elif isinstance(source, float):
        value.double_value = source
    elif isinstance(source, str):
        value.string_value = source
    elif isinstance(source, list):
        value.list_value.SetInParent()
        for entry in source:
            fill(value.list_value.values.add(), entry)
    else:
        value.struct_value.SetInParent()
        for key, entry in source.items():
            fill(value.struct_value.fields[key], entry)


def point_id(point):
    """Returns the id of a point for the engine."""
    return uuid.UUID(point.uuid) if point.WhichOneof("point_id_options") == "uuid" else point.num


def condition(source):
    """Returns a condition for the engine."""
    kind = source.WhichOneof("condition_one_of")
    if kind == "filter":
        return condition_filter(source.filter)
    if kind == "has_id":
        return edge.HasIdCondition({point_id(point) for point in source.has_id.has_id})
    if kind == "has_vector":
        return edge.HasVectorCondition(source.has_vector.has_vector)
    if kind != "field":
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "a condition of an unknown kind")
    field = source.field
    matched = field.match.WhichOneof("match_value")
    if matched == "keyword":
        return edge.FieldCondition(field.key, match=edge.MatchValue(field.match.keyword))
    if matched == "keywords":
        return edge.FieldCondition(field.key, match=edge.MatchAny(list(field.match.keywords.strings)))
    if not field.HasField("range"):
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "a field condition without a match and a range")
    bounds = {name: getattr(field.range, name) for name in ("lt", "gt", "gte", "lte") if field.range.HasField(name)}
    return edge.FieldCondition(field.key, range=edge.RangeFloat(**bounds))


def condition_filter(source):
    """Returns a filter for the engine. Empty lists of conditions are absent."""
    parts = {name: [condition(entry) for entry in getattr(source, name)] for name in ("must", "should", "must_not")}
    return edge.Filter(**{name: entries for name, entries in parts.items() if entries})


def optional_filter(request, name="filter"):
    """Returns the filter of a request, or None."""
    return condition_filter(getattr(request, name)) if request.HasField(name) else None


def vector(source):
    """Returns a vector for the engine."""
    if source.WhichOneof(source.DESCRIPTOR.oneofs[0].name) == "sparse":
        return edge.SparseVector(list(source.sparse.indices), list(source.sparse.values))
    return list(source.dense.data)


def with_payload(selector):
    """Returns the requested parts of the payload."""
    kind = selector.WhichOneof("selector_options")
    return list(selector.include.fields) if kind == "include" else bool(kind and selector.enable)


class Store:
    """The collections in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.shards = {}
        self.vectors = {}
        for path in folder.iterdir():
            if (path / CONFIGURATION).is_file():
                self.shards[path.name] = edge.EdgeShard.load(str(path / "shard"))
                self.vectors[path.name] = json.loads((path / CONFIGURATION).read_text())

    def shard(self, name):
        """Returns a collection."""
        found = self.shards.get(name)
        if found is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"Collection `{name}` doesn't exist!")
        return found

    def record(self, name):
        """Stores the names of the vectors of a collection, which the engine does not return."""
        path = self.folder / name / CONFIGURATION
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(self.vectors[name]))
        temporary.replace(path)

    def create(self, request):
        """Creates a collection with sparse vectors only."""
        name = request.collection_name
        with self.lock:
            if name in self.shards:
                raise Refused(grpc.StatusCode.ALREADY_EXISTS, f"Collection `{name}` already exists!")
            sparse = {key: params.modifier for key, params in request.sparse_vectors_config.map.items()}
            modifiers = {wire.Idf: edge.Modifier.Idf}
            of_engine = {
                key: edge.EdgeSparseVectorParams(modifier=modifiers.get(modifier)) for key, modifier in sparse.items()
            }
            path = self.folder / name / "shard"
            path.mkdir(parents=True)
            self.shards[name] = edge.EdgeShard.create(str(path), edge.EdgeConfig(vectors={}, sparse_vectors=of_engine))
            self.vectors[name] = {"dense": {}, "sparse": sparse}
            self.record(name)

    def add_vector(self, request):
        """Adds a named dense vector to a collection."""
        name, added, config = request.collection_name, request.vector_name, request.dense_config
        if config.distance != wire.Cosine:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "the test server supports the distance Cosine")
        with self.lock:
            shard = self.shard(name)
            if added in self.vectors[name]["dense"]:
                return
            shard.update(edge.UpdateOperation.create_dense_vector(added, config.size, edge.Distance.Cosine))
            self.vectors[name]["dense"][added] = config.size
            self.record(name)


def delay(request, context):
    """Delays a request that contains the text of the delay. The delay ends with the call."""
    if not DELAY.is_file():
        return
    settings = json.loads(DELAY.read_text())
    if settings["text"].encode() in request.SerializeToString():
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(settings["seconds"])


class Handler:
    """Runs a request, and maps its error to a status."""

    def __init__(self, store, api_key):
        self.store = store
        self.api_key = api_key

    def run(self, context, action, request=None):
        """Checks the API key, delays the request if there is one, and returns the response of an action."""
        key = dict(context.invocation_metadata()).get("api-key", "")
        if self.api_key and key != self.api_key:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid API key or JWT")
        if request is not None:
            delay(request, context)
        try:
            return action()
        except Refused as error:
            code, message = error.code, str(error)
        except Exception as error:  # The engine raises no other type.
            code, message = grpc.StatusCode.INVALID_ARGUMENT, str(error)
        return context.abort(code, message)


class Health(services.QdrantServicer, Handler):
    """The service with the version of the server."""

    def HealthCheck(self, request, context):
        return self.run(context, lambda: wire.HealthCheckReply(title="qdrant - test server", version=VERSION))


class Collections(services.CollectionsServicer, Handler):
    """The service of collections."""

    def Create(self, request, context):
        def action():
            self.store.create(request)
            return wire.CollectionOperationResponse(result=True)

        return self.run(context, action)

    def Get(self, request, context):
        def action():
            self.store.shard(request.collection_name)
            vectors = self.store.vectors[request.collection_name]
            response = wire.GetCollectionInfoResponse()
            params = response.result.config.params
            for name, size in vectors["dense"].items():
                params.vectors_config.params_map.map[name].CopyFrom(
                    wire.VectorParams(size=size, distance=wire.Cosine)
                )
            for name, modifier in vectors["sparse"].items():
                params.sparse_vectors_config.map[name].modifier = modifier
            return response

        return self.run(context, action)


class Points(services.PointsServicer, Handler):
    """The service of points."""

    def update(self, request, context, operation):
        """Applies an operation of the engine."""

        def action():
            self.store.shard(request.collection_name).update(operation())
            return wire.PointsOperationResponse(result=wire.UpdateResult(status=wire.Completed))

        return self.run(context, action, request)

    def Upsert(self, request, context):
        def operation():
            points = []
            for point in request.points:
                if not point.HasField("vectors"):
                    raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "Expected some vectors")
                vectors = {name: vector(entry) for name, entry in point.vectors.vectors.vectors.items()}
                payload = {key: plain(value) for key, value in point.payload.items()}
                points.append(edge.Point(point_id(point.id), vectors, payload))
            modes = {wire.InsertOnly: edge.UpdateMode.InsertOnly, wire.UpdateOnly: edge.UpdateMode.UpdateOnly}
            mode = modes.get(request.update_mode) if request.HasField("update_mode") else None
            return edge.UpdateOperation.upsert_points(points, optional_filter(request, "update_filter"), mode)

        return self.update(request, context, operation)

    def Delete(self, request, context):
        def operation():
            if request.points.WhichOneof("points_selector_one_of") == "filter":
                return edge.UpdateOperation.delete_points_by_filter(condition_filter(request.points.filter))
            return edge.UpdateOperation.delete_points([point_id(point) for point in request.points.points.ids])

        return self.update(request, context, operation)

    def CreateFieldIndex(self, request, context):
        def operation():
            params = request.field_index_params
            if params.WhichOneof("index_params") == "integer_index_params":
                bounds = params.integer_index_params
                schema = edge.IntegerIndexParams(lookup=bounds.lookup, range=bounds.range)
            else:
                schema = edge.KeywordIndexParams(is_tenant=params.keyword_index_params.is_tenant)
            return edge.UpdateOperation.create_field_index(request.field_name, schema)

        return self.update(request, context, operation)

    def CreateVectorName(self, request, context):
        def action():
            self.store.add_vector(request)
            return wire.PointsOperationResponse(result=wire.UpdateResult(status=wire.Completed))

        return self.run(context, action, request)

    def Get(self, request, context):
        def action():
            ids = [point_id(point) for point in request.ids]
            found = self.store.shard(request.collection_name).retrieve(ids, with_payload(request.with_payload), False)
            return wire.GetResponse(result=[retrieved(record) for record in found])

        return self.run(context, action, request)

    def Scroll(self, request, context):
        def action():
            order = None
            if request.HasField("order_by"):
                by = request.order_by
                start = by.start_from.integer if by.HasField("start_from") else None
                order = edge.OrderBy(by.key, edge.Direction.Asc, start)
            scroll = edge.ScrollRequest(
                limit=request.limit,
                filter=optional_filter(request),
                with_payload=with_payload(request.with_payload),
                with_vector=False,
                order_by=order,
            )
            found, _ = self.store.shard(request.collection_name).scroll(scroll)
            return wire.ScrollResponse(result=[retrieved(record) for record in found])

        return self.run(context, action, request)

    def Count(self, request, context):
        def action():
            counted = edge.CountRequest(request.exact, optional_filter(request))
            count = self.store.shard(request.collection_name).count(counted)
            return wire.CountResponse(result=wire.CountResult(count=count))

        return self.run(context, action, request)

    def QueryBatch(self, request, context):
        def action():
            shard = self.store.shard(request.collection_name)
            response = wire.QueryBatchResponse()
            for query in request.query_points:
                result = response.result.add()
                for point in shard.query(query_request(query)):
                    scored = result.result.add(score=point.score)
                    scored.id.uuid = str(point.id)
                    for key, value in (point.payload or {}).items():
                        fill(scored.payload[key], value)
            return response

        return self.run(context, action, request)

    def Facet(self, request, context):
        def action():
            facet = edge.FacetRequest(request.key, request.limit, request.exact, optional_filter(request))
            response = wire.FacetResponse()
            for hit in self.store.shard(request.collection_name).facet(facet).hits:
                response.hits.add(count=hit.count).value.string_value = hit.value
            return response

        return self.run(context, action, request)


def query_request(query):
    """Returns a query for the engine."""
    params = edge.SearchParams(exact=query.params.exact)
    if query.params.HasField("idf"):
        idf = edge.IdfParams(optional_filter(query.params.idf, "corpus"))
        params = edge.SearchParams(exact=query.params.exact, idf=idf)
    return edge.QueryRequest(
        limit=query.limit,
        query=edge.Query.Nearest(vector(query.query.nearest), query.using),
        filter=optional_filter(query),
        params=params,
        with_payload=with_payload(query.with_payload),
        with_vector=False,
    )


def retrieved(record):
    """Returns a point of the wire format."""
    point = wire.RetrievedPoint()
    point.id.uuid = str(record.id)
    for key, value in (record.payload or {}).items():
        fill(point.payload[key], value)
    return point


def main():
    """Serves until the process is stopped."""
    data, port, api_key, certificate, key = (sys.argv[2:] + ["", "", ""])[:5]
    handlers = (Store(pathlib.Path(data)), api_key)
    sizes = [("grpc.max_receive_message_length", MESSAGE_BYTES), ("grpc.max_send_message_length", MESSAGE_BYTES)]
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=sizes)
    services.add_QdrantServicer_to_server(Health(*handlers), server)
    services.add_CollectionsServicer_to_server(Collections(*handlers), server)
    services.add_PointsServicer_to_server(Points(*handlers), server)
    address = f"127.0.0.1:{port}"
    if certificate:
        chain, private = pathlib.Path(certificate).read_bytes(), pathlib.Path(key).read_bytes()
        server.add_secure_port(address, grpc.ssl_server_credentials([(private, chain)]))
    else:
        server.add_insecure_port(address)
    server.start()
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    server.stop(1)


if __name__ == "__main__":
    main()
