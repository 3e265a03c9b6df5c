"""Small XML files, written from the layout of each format, for cases without a real file."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence

import numpy as np

Rows = dict[str, Sequence[int]]

TWO_LEADS: Rows = {"I": (1, -2, 300, 4), "II": (50, 60, -70, 80)}


def muse_lead(
    lead: str,
    digital_values: Sequence[int],
    *,
    step: str = "4.88",
    unit: str = "MICROVOLTS",
    crc: str | None = None,
    more: str = "",
) -> str:
    data = np.array(digital_values, "<i2").tobytes()
    return f"""<LeadData><LeadSampleCountTotal>{len(digital_values)}</LeadSampleCountTotal>
<LeadAmplitudeUnitsPerBit>{step}</LeadAmplitudeUnitsPerBit><LeadAmplitudeUnits>{unit}</LeadAmplitudeUnits>
<LeadID>{lead}</LeadID><LeadSampleSize>2</LeadSampleSize>{more}
<LeadDataCRC32>{zlib.crc32(data) if crc is None else crc}</LeadDataCRC32>
<WaveFormData>\n{base64.b64encode(data).decode()}\n</WaveFormData></LeadData>"""


def muse_waveform(kind: str, *leads: str, base: str = "500", exponent: str = "0") -> str:
    return f"""<Waveform><WaveformType>{kind}</WaveformType><SampleBase>{base}</SampleBase>
<SampleExponent>{exponent}</SampleExponent>{"".join(leads)}</Waveform>"""


def muse(*waveforms: str, about: str = "") -> str:
    waveforms = waveforms or (
        muse_waveform("Rhythm", *(muse_lead(lead, digital_values) for lead, digital_values in TWO_LEADS.items())),
    )
    return f"""<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE RestingECG SYSTEM "restecg.dtd">
<RestingECG>{about}{"".join(waveforms)}</RestingECG>"""


def aecg_lead(
    lead: str, digits: str, *, scale: str = 'value="2.5" unit="uV"', origin: str = 'value="0" unit="uV"'
) -> str:
    return f"""<component><sequence><code code="MDC_ECG_LEAD_{lead}"/><value xsi:type="SLIST_PQ"><origin {origin}/>
<scale {scale}/><digits>{digits}</digits></value></sequence></component>"""


def aecg_time(increment: str = 'value="0.002" unit="s"', code: str = "TIME_RELATIVE") -> str:
    return f"""<component><sequence><code code="{code}"/><value xsi:type="GLIST_PQ"><head value="0" unit="s"/>
<increment {increment}/></value></sequence></component>"""


def aecg_series(*sequences: str, code: str = "RHYTHM") -> str:
    sequences = sequences or (
        aecg_time(),
        *(aecg_lead(lead, " ".join(map(str, digital_values))) for lead, digital_values in TWO_LEADS.items()),
    )
    inside = f"<component><sequenceSet>{''.join(sequences)}</sequenceSet></component>"
    return f'<component><series><code code="{code}"/>{inside}</series></component>'


def aecg(*series: str, about: str = "") -> str:
    return f"""<?xml version="1.0"?><AnnotatedECG xmlns="urn:hl7-org:v3"
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">{about}{"".join(series or (aecg_series(),))}</AnnotatedECG>"""


def philips(data: bytes = b"", *, labels: str = "I II", more: str = "", version: str = "1.04", about: str = "") -> str:
    """Without compression, as no real file here is."""
    data = data or np.array(list(TWO_LEADS.values()), "<i2").tobytes()
    return f"""<?xml version="1.0"?><restingecgdata xmlns="http://www3.medical.philips.com"><documentinfo>
<documentversion>{version}</documentversion></documentinfo>{about}<waveforms><parsedwaveforms dataencoding="Base64"
bitspersample="16" leadlabels="{labels}" samplespersecond="500" resolution="5" signaloffset="0" {more}>
{base64.b64encode(data).decode()}</parsedwaveforms></waveforms></restingecgdata>"""


def cardiosoft(
    rows: Rows = TWO_LEADS, *, about: str = "", resolution: str = '<Resolution units="uVperLsb">5</Resolution>'
) -> str:
    leads = "".join(
        f'<WaveformData lead="{lead}">\t{",".join(map(str, digital_values))}</WaveformData>'
        for lead, digital_values in rows.items()
    )
    return f"""<?xml version="1.0" encoding="ISO8859-1" ?><CardiologyXML>{about}<StripData>
<SampleRate units="Hz">500</SampleRate><ChannelSampleCountTotal>4</ChannelSampleCountTotal>
{resolution}{leads}</StripData></CardiologyXML>"""


def schiller(
    rows: Rows = TWO_LEADS,
    *,
    kind: str = "ECG_RHYTHMS",
    exponent: str = "1",
    about: str = "",
    form: str = "COMMASEPARATE",
) -> str:
    channels = "".join(
        f"<channel><name>{lead}</name><data>{','.join(map(str, row))}</data><datastype>{form}</datastype></channel>"
        for lead, row in rows.items()
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?><com.xiriuz.sema.xml.schillerEDI.SchillerEDI>{about}<eventdata>
<event><wavedata><type>{kind}</type><resolution><samplerate><exponent>{exponent}</exponent><value>500</value>
</samplerate><yres><unitperbit>1.0</unitperbit><units>UV</units></yres></resolution>{channels}</wavedata></event>
</eventdata></com.xiriuz.sema.xml.schillerEDI.SchillerEDI>"""


WRITERS: dict[str, Callable[[], str]] = {
    "muse-xml": muse,
    "aecg": aecg,
    "philips-xml": philips,
    "cardiosoft-xml": cardiosoft,
    "schiller-xml": schiller,
}
"""Each writes its example when called with nothing: leads I and II of ``TWO`` at 500 Hz."""
