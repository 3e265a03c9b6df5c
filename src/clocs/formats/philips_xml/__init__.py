"""Philips XML (SierraECG, PhilipsECG): all leads in one base64 text, packed by XLI."""

from clocs.formats.philips_xml.document import PHILIPS_XML

__all__ = ["PHILIPS_XML"]
