"""Say what answers of S3, and failures on the way to it, mean: one table, by the codes of the protocol.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html#ErrorCodeList. Texts of the server and of the library are
never repeated: they name keys and signatures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from anabranch.errors import AnabranchError
from anabranch.stores.failures import Failures

TAKEN = frozenset({"PreconditionFailed", "412"})
MISSING = frozenset({"NoSuchKey", "NotFound", "404"})
_REFUSED = frozenset(
    {
        "403",
        "401",
        "AccessDenied",
        "AccountProblem",
        "AllAccessDisabled",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "InvalidSecurity",
        "NotSignedUp",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnauthorizedAccess",
    }
)
_FULL = frozenset(
    {"507", "QuotaExceeded", "InsufficientCapacity", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}
)
_REGION = frozenset({"301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_LATER = frozenset(
    {"RequestTimeout", "RequestTimedOut", "ConditionalRequestConflict", "OperationAborted", "408", "409", "429"}
)
ASKED = "docs/reference/stores.md says what is asked of a server"
_KEYS = "give access_key_id and secret_access_key in the URL, or keys as the AWS command line takes them"
_WAYS = {  # classes of the library: what they say in our words
    exceptions.ConnectTimeoutError: "no connection within the time for it",
    exceptions.ReadTimeoutError: "no answer within the time for it",
    exceptions.EndpointConnectionError: "it cannot be reached",
    exceptions.ConnectionClosedError: "the line was cut before the answer",
    exceptions.ResponseStreamingError: "the line was cut in the answer",
    exceptions.IncompleteReadError: "the line was cut in the answer",
    exceptions.ProxyConnectionError: "the proxy cannot be reached",
    exceptions.CredentialRetrievalError: "who hands out the keys does not answer",
    exceptions.MetadataRetrievalError: "who hands out the keys does not answer",
}


def code_of(error: ClientError) -> str:
    """Return the code of an answer: a word, or the number of its status where it has no word."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    return code if re.fullmatch(r"\w{1,60}", code) else str(_status(error))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


@contextmanager
def translated(failures: Failures) -> Iterator[None]:
    """Make errors of the library those of the project."""
    try:
        yield
    except ClientError as error:
        raise _of_answer(failures, code_of(error), _status(error)) from None
    except HTTPError:  # in the body of an answer, not all of these are made the library's own
        raise failures.away("the line was cut in the answer") from None
    except BotoCoreError as error:
        raise _of_way(failures, error) from None


def _of_answer(failures: Failures, code: str, status: int) -> AnabranchError:
    if code in _FULL or status == 507:
        return failures.full(f"no room is left ({code})")
    if code == "NoSuchBucket" or code in MISSING:
        return failures.wrong("the bucket is not there", "make it, or name another one")
    if code == "RequestTimeTooSkewed":
        return failures.wrong("the clock of this machine is wrong", "set it: signatures hold for some minutes")
    if code in _REGION:
        return failures.wrong("the bucket is in another region", "name it with the option region of the URL")
    if code in _REFUSED:
        return failures.wrong(f"the credentials are refused, or have not the right ({code})")
    if code == "NotImplemented" or status == 501:
        return failures.wrong(f"it does not know a request that is needed ({code})", ASKED)
    if code in _LATER or not 400 <= status < 500:
        return failures.away(f"it answers {status} ({code})")
    return failures.wrong(f"it refuses the request ({code})", ASKED)


def _of_way(failures: Failures, error: BotoCoreError) -> AnabranchError:
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return failures.wrong("there are no credentials", _KEYS)
    if isinstance(error, exceptions.ProfileNotFound):
        return failures.wrong("there is no such profile", "look into ~/.aws/config, or leave the option profile out")
    if isinstance(error, exceptions.SSLError) and "CERTIFICATE" in str(error):
        return failures.wrong("its certificate is not trusted", "name the authority (PEM) with the option ssl_ca")
    said = next((text for kind, text in _WAYS.items() if isinstance(error, kind)), type(error).__name__)
    if isinstance(error, exceptions.HTTPClientError) or said != type(error).__name__:
        return failures.away(said)
    return failures.wrong(f"it cannot be asked ({said})", "look at the options of the URL and the settings of AWS")
